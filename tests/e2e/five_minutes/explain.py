from d4explain import Client
from train import dataset, model

client = Client()
gnn = client.register(model, dataset, name="mutag", class_names=["harmless", "mutagenic"])
answers = client.explain(gnn, dataset[0]).wait(wait_for="provisional")
answers.draw().save("first.svg")
answers.wait()
answers.draw().save("final.svg")
