from d4explain import Client
from torch_geometric.data import Data
from train import dataset, model

graphs = [Data(x=graph.x, edge_index=graph.edge_index, y=graph.y) for graph in dataset]
client = Client()
gnn = client.register(model, graphs, name="mutag", class_names=["harmless", "mutagenic"])
answers = client.explain(gnn, graphs[0]).wait(wait_for="provisional")
answers.draw().save("first.svg")
answers.wait()
answers.draw().save("final.svg")
