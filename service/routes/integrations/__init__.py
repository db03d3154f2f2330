"""Shapes that other systems speak: KServe and TrustyAI."""
