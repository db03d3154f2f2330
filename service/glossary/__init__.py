"""One line of text per field of the API, for the OpenAPI document and docs/glossary.md."""
