"""Which engine or router stands behind an address, told from recorded answers by GET requests alone."""

from __future__ import annotations

import os
import socket
import ssl
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from profiler import registry
from profiler.collectors.availability import Piece, pieces, restarts
from profiler.collectors.discovery import Discovery, discover, url_of
from profiler.collectors.http_client import Client, tls
from profiler.collectors.process_tree import output_of, sees_our_files, tree
from profiler.collectors.workers import Worker, missing
from profiler.errors import UsageError
from profiler.model.live import ProcessRole
from tests.live_servers import Route, client_of, llamacpp, served, sglang, trtllm, vllm

pytestmark = pytest.mark.usefixtures("corpus")


def found_in(routes: Mapping[str, Route]) -> tuple[Discovery, dict[str, Piece]]:
    with served(routes) as server:
        client = client_of(server)
        found = discover(client, registry.engines(), dict)
        told = {one.name: one for one in pieces(found, client)}
        client.close()
        assert {one.method for one in server.asked} == {"GET"}
        twice = [path for path in set(server.paths("GET")) if server.paths("GET").count(path) > 1]
        assert twice == []
    return found, told


def test_vllm_with_everything_on() -> None:
    found, told = found_in(vllm())
    assert found.engine is not None and found.engine.name == "vllm"
    assert (found.identity.version, found.identity.model) == ("0.32.0", "/models/tiny-qwen2")
    assert found.facts["setting.max_model_len"] == 2048
    assert told["metrics"].ready and told["settings"].ready and told["trace"].ready
    assert "VLLM" not in str(found.settings.get("vllm_env", {}).get("VLLM_API_KEY", ""))  # type: ignore[attr-defined]


def test_what_a_plain_vllm_needs_is_said() -> None:
    found, told = found_in(vllm(settings=False, profiler=False))
    assert found.engine is not None and found.engine.name == "vllm" and not found.settings
    assert not told["settings"].ready and "VLLM_SERVER_DEV_MODE=1" in told["settings"].needs
    assert not told["trace"].ready and "--profiler-config" in told["trace"].needs
    assert restarts(found)["nsys"].startswith("nsys profile") and "profiler=cuda" in restarts(found)["nsys"]


@pytest.mark.parametrize("old", [False, True])
def test_sglang(old: bool) -> None:
    found, told = found_in(sglang(old))
    assert found.engine is not None and found.engine.name == "sglang"
    assert found.identity.version == "0.5.23" and found.facts["setting.tensor_parallel"] == 1
    assert told["trace"].ready and told["every step in the log"].ready


def test_llamacpp_and_its_missing_metrics() -> None:
    found, told = found_in(llamacpp())
    assert found.engine is not None and found.engine.name == "llamacpp"
    assert found.facts["setting.max_num_seqs"] == 8 and found.identity.version is not None
    assert told["metrics"].ready and not told["trace"].ready
    _, told = found_in(llamacpp(metrics=False))
    assert not told["metrics"].ready and told["metrics"].needs == "start it with --metrics"


def test_trtllm_by_its_list_of_steps() -> None:
    found, told = found_in(trtllm())
    assert found.engine is not None and found.engine.name == "trtllm" and found.identity.version == "1.2.0"
    assert told["steps"].ready and not told["metrics"].ready
    assert found.engine.live is not None and "emptied" in found.engine.live.notes[0]


def test_a_gateway_names_its_workers_and_is_not_taken_for_an_engine() -> None:
    workers = '{"workers": [{"id": "w", "url": "http://10.0.0.1:30000"}], "total": 1, "stats": {"prefill_count": 0}}'
    found, _ = found_in(sglang() | {"/workers": workers})
    assert found.engine is None and found.component is not None and found.component.name == "gateway"
    assert found.identity.workers == ("http://10.0.0.1:30000",)


def test_a_stack_router_names_its_servers_by_a_label() -> None:
    text = (
        '# TYPE vllm:healthy_pods_total gauge\nvllm:healthy_pods_total{server="http://a:8000"} 1\n'
        'vllm:num_requests_running{server="http://a:8000"} 1\nvllm:num_requests_running{server="http://b:8000"} 2\n'
    )
    found, _ = found_in(vllm() | {"/metrics": text})
    assert found.component is not None and found.identity.workers == ("http://a:8000", "http://b:8000")


def test_a_dynamo_front_end_names_instances_that_have_no_address() -> None:
    health = (
        '{"status": "healthy", "endpoints": ["dyn://d.backend.generate"], "instances": [{"component": "backend", '
        '"endpoint": "generate", "namespace": "d", "instance_id": 42, "transport": {"tcp": "x"}}]}'
    )
    models = '{"object": "list", "data": [{"id": "tiny", "owned_by": "nvidia"}]}'
    found, _ = found_in({"/v1/models": models, "/health": health, "/metrics": "dynamo_frontend_requests_total 1\n"})
    assert found.component is not None and found.component.name == "dynamo"
    assert len(found.identity.unnamed) == 1 and "42" in found.identity.unnamed[0]


@pytest.mark.parametrize("old", [False, True])
def test_an_endpoint_picker_names_pods_and_what_it_takes_to_reach_them(old: bool) -> None:
    gauge, label = ("inference_pool_per_pod_queue_size", "model_server_pod") if old else (
        "llm_d_epp_per_endpoint_queue_size", "model_server_endpoint"
    )  # fmt: skip
    picks, name = ("inference_extension", "pod_name") if old else ("llm_d_epp", "endpoint_name")
    text = f"# TYPE {gauge} gauge\n" + "".join(
        f'{gauge}{{{label}="qwen-{pod}-rank-0",name="pool"}} 0\n' for pod in ("a", "b")
    )
    text += (
        f'{picks}_scheduler_attempts_total{{{name}="qwen-a-rank-0",namespace="llm",port="8000",status="success"}} 7\n'
        f'{picks}_scheduler_attempts_total{{{name}="",namespace="",port="",status="failure"}} 1\n'
    )
    found, _ = found_in({"/metrics": text})
    assert found.component is not None and found.component.name == "llmd"
    assert found.identity.unnamed == ("pod qwen-a in namespace llm, port 8000", "pod qwen-b")
    lacking = missing(Worker(found.url, "", found), ())
    assert "kubectl -n NAMESPACE get pod POD" in lacking["workers"]


def test_a_stranger_is_named_as_one() -> None:
    found, told = found_in({"/v1/models": '{"data": [{"id": "m", "owned_by": "me"}]}', "/health": "ok"})
    assert found.engine is None and found.component is None and found.identity.model == "m"
    assert "no engine here knows" in found.title and not told["metrics"].ready


def test_a_key_is_asked_for_and_used() -> None:
    with served(vllm(), key="abc123secret") as server:
        with pytest.raises(UsageError, match="--api-key-env"):
            discover(Client(server.url), registry.engines(), dict)
        found = discover(client_of(server), registry.engines(), dict)
    assert found.engine is not None and "abc123secret" not in repr(found)


def test_nobody_there_is_one_sentence() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(UsageError, match="no answer"):
        discover(Client(f"http://127.0.0.1:{port}"), registry.engines(), dict)


@pytest.mark.parametrize("url", ["http://u:p@h:1", "ftp://h", "http://", "http://h:0", "http://h:x", "http://h/?k=v"])
def test_addresses_that_are_refused(url: str) -> None:
    with pytest.raises(UsageError) as refused:
        Client(url)
    assert ":p@" not in str(refused.value)


def test_a_certificate_is_checked_against_the_given_authority(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    made = subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", str(key), "-out", str(certificate),
         "-days", "2", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"],
        capture_output=True, check=False,
    )  # fmt: skip
    if made.returncode != 0:
        pytest.skip("openssl could not make a certificate")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with served(vllm(), context=context) as server:
        with Client(server.url, context=tls(certificate)) as client:
            assert client.get("/version").ok
        with Client(server.url, context=tls(None)) as client:
            refused = client.get("/version")
        assert refused.status == 0 and "certificate" in refused.text.lower()
    with pytest.raises(UsageError, match="no certificates"):
        tls(key.with_name("absent.pem"))


def test_the_tree_of_a_process_its_ranks_and_devices(tmp_path: Path) -> None:
    child = "import subprocess, sys, time; print('up', flush=True); time.sleep(60)"
    with (tmp_path / "out.log").open("w") as log:
        parent = subprocess.Popen([sys.executable, "-c", child, "--api-key", "hush", "Worker_TP1"], stdout=log)
    try:
        found = tree(parent.pid, (ProcessRole("worker", r"Worker_(?P<rank>TP\d+)", host=True),), {parent.pid: [3, 1]})
        assert [(one.pid, one.role, one.rank, one.gpus) for one in found] == [(parent.pid, "worker", "TP1", (1, 3))]
        assert found[0].parent == os.getpid() and "hush" not in found[0].command
        assert output_of(parent.pid) == tmp_path / "out.log" and sees_our_files(parent.pid)
        with pytest.raises(UsageError, match="no port"):
            url_of(parent.pid)
    finally:
        parent.kill()
        parent.wait()


def test_a_process_with_mounts_of_its_own_does_not_see_our_files() -> None:
    apart = subprocess.Popen(
        ["unshare", "--mount", sys.executable, "-c", "print('up', flush=True); import time; time.sleep(60)"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    try:
        assert apart.stdout is not None
        if apart.stdout.readline() != "up\n":
            pytest.skip("no mount namespace can be made here")
        assert not sees_our_files(apart.pid)
    finally:
        apart.kill()
        apart.communicate()
    assert not sees_our_files(apart.pid)


def test_a_server_on_this_machine_is_found_by_its_port_and_its_process() -> None:
    with served(vllm()) as server:
        found = discover(client_of(server), registry.engines(), lambda: {os.getpid(): [0]})
        assert found.processes[0].pid == os.getpid() and found.processes[0].gpus == (0,)
        assert url_of(os.getpid()) == server.url
