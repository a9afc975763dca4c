"""The slow loop: flow sizes of the whole fabric in, switch intents and host policies out."""
