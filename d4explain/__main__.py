from d4explain.cli import main

main()
