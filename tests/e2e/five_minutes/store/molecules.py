from torch_geometric.datasets import TUDataset


def mutag():
    return TUDataset("data", "MUTAG").shuffle()
