"""`python -m grpodyn`: the command line, for launchers of modules (`accelerate launch -m grpodyn record …`)."""

from grpodyn.cli.app import main

if __name__ == "__main__":
    main()
