"""Climbing flows that overtake themselves: what the drain, the tagger and its receiver's filter make of them."""
