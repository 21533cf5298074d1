python -m x.bench_serving --backend sglang --num-prompts 9 --request-rate inf --seed 2
