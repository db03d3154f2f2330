from d4explain.cli.main import main

main()
