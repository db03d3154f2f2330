"""Examples of reports, letters and node graphs."""

from __future__ import annotations

from service.examples.shared import Example

REPORT = '<!doctype html>\n<html lang="en">…</html>\n'
LETTER: Example = {
    "decision": "The model said “house” (with 91 % certainty) about this graph.",
    "change": "Without the connection between b and roof, it would have said “cycle” (with 73 % "
    "certainty).",
    "agreement": "4 of 5 other models that learned from the same data agree with the change.",
    "limits": ["Only connections were changed; properties of the nodes stayed as they are."],
}
GRAFANA: Example = {
    "nodes": [
        {
            "id": "roof",
            "title": "roof",
            "subTitle": "",
            "mainStat": "edited",
            "color": "#e8b04b",
            "detail__features": "[1.0]",
        }
    ],
    "edges": [
        {
            "id": "removed b-roof",
            "source": "b",
            "target": "roof",
            "mainStat": "removed",
            "color": "#cf222e",
            "strokeDasharray": "6 5",
            "thickness": 2,
        }
    ],
}
