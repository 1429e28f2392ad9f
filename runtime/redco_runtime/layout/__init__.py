"""Where arrays lie on a mesh of devices: meshes, specs, constraints."""
