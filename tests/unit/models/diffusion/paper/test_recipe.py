"""The paper's recipe: printed values, and its schedule in epochs against torch's ExponentialLR."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from models.diffusion.paper.recipe import PRINTED_SIZES, PaperRecipe
from models.diffusion.recipes import Objective, recipe_for


def test_printed_values() -> None:
    recipe = recipe_for(Objective.COUNTERFACTUAL, "paper")
    assert recipe == PaperRecipe()
    assert (recipe.epochs, recipe.learning_rate) == (1500, 1e-3)
    assert len(PRINTED_SIZES) == 8
    tree_cycle = PRINTED_SIZES["tree_cycle"]
    assert (tree_cycle.hidden, tree_cycle.blocks) == (64, 6)
    assert (tree_cycle.batch_graphs, tree_cycle.alpha) == (32, 0.1)


def test_what_can_be_chosen() -> None:
    chosen = recipe_for(Objective.COUNTERFACTUAL, "paper", steps=7, hidden=5, blocks=1, alpha=0.2)
    assert (chosen.steps, chosen.hidden, chosen.blocks, chosen.alpha) == (7, 5, 1, 0.2)
    assert recipe_for(Objective.COUNTERFACTUAL, "paper", alpha=0.2).has_counterfactual_loss
    assert not recipe_for(Objective.CLASS, "paper").has_counterfactual_loss


def test_schedule_is_exponential_in_epochs() -> None:
    recipe = PaperRecipe(batch_graphs=32)
    graphs = 70  # three steps per epoch
    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.Adam([weight], lr=1e-3)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.999)
    for epoch in range(5):
        for batch in range(3):
            rate = optimizer.param_groups[0]["lr"]
            assert recipe.rate_at(3 * epoch + batch, graphs) == pytest.approx(rate, rel=1e-12)
        optimizer.step()
        scheduler.step()
    assert recipe.total_steps(graphs) == 3 * 1500
    assert replace(recipe, steps=10).total_steps(graphs) == 10


@pytest.mark.parametrize(
    ("field", "value"),
    [("steps", 0), ("hidden", 0), ("noise_levels", 0), ("alpha", -1.0), ("epoch_decay", 1.5)],
)
def test_invalid_values_are_refused(field: str, value: float) -> None:
    with pytest.raises(ValueError, match=str(value)):
        replace(PaperRecipe(), **{field: value})  # type: ignore[arg-type]
