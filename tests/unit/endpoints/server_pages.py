"""Pages of real servers, as they were recorded or as their sources write them, shortened where nothing is read."""

from __future__ import annotations

# llama.cpp b7 (xllamacpp 2026.10), 8 slots of 4,096 tokens
LLAMA_METRICS = b"""\
# HELP llamacpp:prompt_tokens_total Number of prompt tokens processed, excluding cached tokens
# TYPE llamacpp:prompt_tokens_total counter
llamacpp:prompt_tokens_total 81242
# HELP llamacpp:n_tokens_max Largest observed sequence length (prompt + generation)
# TYPE llamacpp:n_tokens_max counter
llamacpp:n_tokens_max 512
# HELP llamacpp:predicted_tokens_seconds Average generation throughput in tokens/s
# TYPE llamacpp:predicted_tokens_seconds gauge
llamacpp:predicted_tokens_seconds 79.31
# HELP llamacpp:requests_processing Number of requests processing
# TYPE llamacpp:requests_processing gauge
llamacpp:requests_processing 8
# HELP llamacpp:requests_deferred Number of requests deferred
# TYPE llamacpp:requests_deferred gauge
llamacpp:requests_deferred 3
"""
LLAMA_PROPS = (
    b'{"default_generation_settings":{"params":{"seed":4294967295,"temperature":0.800000011920929},"n_ctx":4096},'
    b'"total_slots":8,"model_alias":"SmolLM2","model_path":"/m.gguf","modalities":{"vision":false},"endpoint_slots":true,'
    b'"endpoint_props":true,"endpoint_metrics":true,"chat_template":"{{ messages }}","build_info":"b7-abc","is_sleeping":false}'
)
LLAMA_SLOTS = b'[{"id":0,"n_ctx":4096,"speculative":false,"is_processing":true},{"id":1,"n_ctx":4096,"is_processing":false}]'
LLAMA_MODELS = (
    b'{"models":[{"name":"SmolLM2","type":"model"}],"object":"list","data":[{"id":"SmolLM2","object":"model",'
    b'"created":1796083444,"owned_by":"llamacpp","meta":{"vocab_type":2,"n_vocab":49152,"n_ctx":4096,"n_ctx_train":8192}}]}'
)

# vLLM 0.33, two engines of data parallelism
VLLM_METRICS = b"""\
# HELP python_gc_objects_collected_total Objects collected during gc
# TYPE python_gc_objects_collected_total counter
python_gc_objects_collected_total{generation="0"} 11239.0
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m, \\"}x"} 12.0
vllm:num_requests_running{engine="1",model_name="m, \\"}x"} 11.0
# HELP vllm:num_requests_waiting Number of requests waiting to be processed.
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="m"} 3.0
vllm:num_requests_waiting{engine="1",model_name="m"} 1.0
# HELP vllm:num_requests_waiting_by_reason Number of waiting requests by reason.
# TYPE vllm:num_requests_waiting_by_reason gauge
vllm:num_requests_waiting_by_reason{engine="0",model_name="m",reason="capacity"} 2.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="m",reason="deferred"} 1.0
vllm:num_requests_waiting_by_reason{engine="1",model_name="m",reason="capacity"} 1.0
# HELP vllm:kv_cache_usage_perc KV-cache usage. 1 means 100 percent usage.
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.9312
vllm:kv_cache_usage_perc{engine="1",model_name="m"} 0.5
# HELP vllm:prefix_cache_queries_total Prefix cache queries, in terms of number of queried tokens.
# TYPE vllm:prefix_cache_queries_total counter
vllm:prefix_cache_queries_total{engine="0",model_name="m"} 1.2e+06
vllm:prefix_cache_queries_total{engine="1",model_name="m"} 100.0
# TYPE vllm:prefix_cache_queries_created gauge
vllm:prefix_cache_queries_created{engine="0",model_name="m"} 1.7e+09
# HELP vllm:prefix_cache_hits_total Prefix cache hits, in terms of number of cached tokens.
vllm:prefix_cache_hits_total{engine="0",model_name="m"} 900000.0
vllm:prefix_cache_hits_total{engine="1",model_name="m"} 50.0
# HELP vllm:num_preemptions_total Cumulative number of preemption from the engine.
vllm:num_preemptions_total{engine="0",model_name="m"} 7.0
vllm:num_preemptions_total{engine="1",model_name="m"} 1.0
# HELP vllm:cache_config_info Information of the LLMEngine CacheConfig
# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{block_size="16",cache_dtype="auto",enable_prefix_caching="True",engine="0",gpu_memory_utilization="0.92",\
kv_cache_max_concurrency="12.5",kv_cache_size_tokens="102400",mamba_block_size="None",mamba_cache_dtype="auto",\
num_gpu_blocks="12800",num_gpu_blocks_override="None",sliding_window="None"} 1.0
vllm:cache_config_info{block_size="16",cache_dtype="auto",enable_prefix_caching="True",engine="1",gpu_memory_utilization="0.92",\
kv_cache_max_concurrency="12.5",kv_cache_size_tokens="102400",mamba_block_size="None",mamba_cache_dtype="auto",\
num_gpu_blocks="12800",num_gpu_blocks_override="None",sliding_window="None"} 1.0
"""
VLLM_MODELS = (
    b'{"object":"list","data":[{"id":"m","object":"model","created":1,"owned_by":"vllm","root":"/w","parent":null,'
    b'"max_model_len":8192,"permission":[]}]}'
)

# SGLang 0.5.23 with --enable-metrics: tensor parallel ranks say the same, and priorities split what the empty one holds
SGLANG_METRICS = b"""\
# HELP sglang:num_running_reqs The number of running requests.
# TYPE sglang:num_running_reqs gauge
sglang:num_running_reqs{dp_rank="0",model_name="m",pp_rank="0",priority="",tp_rank="0"} 14.0
sglang:num_running_reqs{dp_rank="0",model_name="m",pp_rank="0",priority="",tp_rank="1"} 14.0
sglang:num_running_reqs{dp_rank="0",model_name="m",pp_rank="0",priority="-1",tp_rank="0"} 14.0
sglang:num_running_reqs{dp_rank="1",model_name="m",pp_rank="0",priority="",tp_rank="0"} 6.0
sglang:num_queue_reqs{dp_rank="0",model_name="m",priority="",tp_rank="0"} 2.0
sglang:token_usage{dp_rank="0",model_name="m",tp_rank="0"} 0.61
sglang:token_usage{dp_rank="1",model_name="m",tp_rank="0"} 0.22
sglang:num_retracted_reqs{dp_rank="0",model_name="m",tp_rank="0"} 0.0
sglang:num_retracted_requests_total{dp_rank="0",model_name="m",tp_rank="0"} 4.0
sglang:prompt_tokens_total{model_name="m"} 1000.0
sglang:cached_tokens_total{cache_source="device",model_name="m"} 300.0
sglang:cached_tokens_total{cache_source="host",model_name="m"} 50.0
"""
SGLANG_INFO = (
    b'{"model_path":"m","api_key":"server-secret","page_size":1,"dp_size":2,"context_length":null,"disable_radix_cache":false,'
    b'"max_total_num_tokens":20480,"max_req_input_len":8186,"max_running_requests":null,"version":"0.5.23","internal_states":['
    b'{"last_gen_throughput":129.3,"memory_usage":{"weight":0.98,"kvcache":0.23,"token_capacity":20480,"graph":0},'
    b'"effective_max_running_requests_per_dp":128},'
    b'{"last_gen_throughput":1.3,"memory_usage":{"weight":0.98,"kvcache":0.23,"token_capacity":20000,"graph":0},'
    b'"effective_max_running_requests_per_dp":128}]}'
)
SGLANG_MODELS = b'{"object":"list","data":[{"id":"m","owned_by":"sglang","root":"m","parent":null,"max_model_len":8192}]}'
SGLANG_LOADS = (
    b'{"timestamp":"2026-11-30T10:00:00Z","version":"0.5.23","loads":[{"dp_rank":0,"num_running_reqs":5,"num_waiting_reqs":1},'
    b'{"dp_rank":1,"num_running_reqs":2,"num_waiting_reqs":0}]}'
)
SGLANG_OLD_LOADS = b'[{"rid":null,"dp_rank":0,"num_reqs":7,"num_waiting_reqs":3,"num_tokens":812}]'

TGI_METRICS = b"""\
# TYPE tgi_request_count counter
tgi_request_count 150
# TYPE tgi_batch_current_size gauge
tgi_batch_current_size 5
# TYPE tgi_queue_size gauge
tgi_queue_size 3
# TYPE tgi_batch_current_max_tokens gauge
tgi_batch_current_max_tokens 1200
# TYPE tgi_batch_max_total_tokens gauge
tgi_batch_max_total_tokens 16000
"""
TGI_INFO = (
    b'{"model_id":"meta-llama/Llama-3.1-8B-Instruct","model_sha":"0e9e","model_pipeline_tag":"text-generation",'
    b'"max_concurrent_requests":128,"max_best_of":2,"max_stop_sequences":4,"max_input_tokens":4095,"max_total_tokens":4096,'
    b'"validation_workers":2,"max_client_batch_size":4,"version":"3.3.4","sha":null,"docker_label":null}'
)
TEI_INFO = (
    b'{"model_id":"thenlper/gte-base","model_sha":"fca1","model_dtype":"float16","model_type":{"embedding":{"pooling":"cls"}},'
    b'"max_concurrent_requests":512,"max_input_length":512,"max_batch_tokens":16384,"max_batch_requests":null,'
    b'"max_client_batch_size":32,"tokenization_workers":4,"version":"1.9.0","sha":null,"docker_label":null}'
)
TEI_METRICS = b"# TYPE te_queue_size gauge\nte_queue_size 9\n# TYPE te_request_count counter\nte_request_count 100\n"

TRTLLM_METRICS = b"""\
# TYPE trtllm_request_success_total counter
trtllm_request_success_total{engine_type="trtllm",finished_reason="stop",model_name="m"} 10.0
trtllm_num_requests_running{engine_type="trtllm",model_name="m"} 4.0
trtllm_num_requests_waiting{engine_type="trtllm",model_name="m"} 2.0
trtllm_kv_cache_utilization{engine_type="trtllm",model_name="m"} 0.62
"""
TRTLLM_MODELS = b'{"object":"list","data":[{"id":"m","object":"model","created":1,"owned_by":"tensorrt_llm"}]}'
TRTLLM_JSON_METRICS = b'[{"iter":1,"numActiveRequests":2,"numQueuedRequests":3}]'

OLLAMA_MODELS = b'{"object":"list","data":[{"id":"llama3.2:latest","object":"model","created":1,"owned_by":"library"}]}'
OPENAI_MODELS = b'{"object":"list","data":[{"id":"gpt-x","object":"model","created":1,"owned_by":"system"}]}'
