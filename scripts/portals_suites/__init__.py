"""Suites of others for Portals 4 and OpenSHMEM: what is built of them, and which programs they have."""
