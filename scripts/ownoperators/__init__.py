"""What is run on machines with GPUs of packages of users' operators."""
