"""``python -m nsysroof`` is the same as the command ``nsysroof``."""

from nsysroof.cli.main import main

if __name__ == "__main__":
    main()
