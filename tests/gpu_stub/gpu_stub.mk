# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
# A GPU's libraries without a GPU: tests/gpu_stub/README.md. One test: tests/e2e/run gpu_stub.api

GS := $(B)/tests/gpu_stub
GS_SRC := tests/gpu_stub
GS_CFLAGS := -std=gnu11 -D_GNU_SOURCE $(WARN) -Wno-missing-prototypes -Wno-strict-prototypes -O2 -g -pthread
GS_LIB := $(GS_CFLAGS) -shared -fPIC -fvisibility=hidden
GS_LINK = -L$(GS) -l:libcudart.so.13 -l:libnccl.so.2 -l:libcuda.so.1 -Wl,-rpath,'$$ORIGIN'

$(GS)/libcuda.so.1: $(GS_SRC)/cuda_stub.c $(GS_SRC)/stub.h
	@mkdir -p $(@D)
	$(CC) $(GS_LIB) -Wl,-soname,libcuda.so.1 $< -o $@ -ldl
$(GS)/libcudart.so.13: $(GS_SRC)/cudart_stub.c $(GS_SRC)/stub.h $(GS_SRC)/cudart.map $(GS)/libcuda.so.1
	$(CC) $(GS_LIB) -Wl,-soname,libcudart.so.13 -Wl,--version-script,$(GS_SRC)/cudart.map $< -L$(GS) -l:libcuda.so.1 \
		-Wl,-rpath,'$$ORIGIN' -o $@
$(GS)/libnccl.so.2: $(GS_SRC)/nccl_stub.c $(GS_SRC)/stub.h $(GS)/libcuda.so.1
	$(CC) $(GS_LIB) -Wl,-soname,libnccl.so.2 $< -L$(GS) -l:libcuda.so.1 -Wl,-rpath,'$$ORIGIN' -o $@
$(GS)/gpu_target: $(GS_SRC)/gpu_target.c $(GS)/libcudart.so.13 $(GS)/libnccl.so.2
	$(CC) $(GS_CFLAGS) $< $(GS_LINK) -o $@
# The runtime inside the program, as nvcc links it: its functions are local symbols.
$(GS)/gpu_target_static: $(GS_SRC)/gpu_target.c $(GS_SRC)/cudart_stub.c $(GS)/libnccl.so.2
	$(CC) $(GS_CFLAGS) '-DAPI=__attribute__((visibility("hidden")))' -c $(GS_SRC)/cudart_stub.c -o $(GS)/cudart_static.o
	$(CC) $(GS_CFLAGS) $< $(GS)/cudart_static.o -L$(GS) -l:libnccl.so.2 -l:libcuda.so.1 -Wl,-rpath,'$$ORIGIN' -o $@
# HIP's functions have the arguments of the runtime's: the same library and the same target under their names, without CUDA's variants.
GS_HIP = sed -e 's/cuda\([A-Z*]\)/hip\1/g' -e 's/libcudart.so.13/libamdhip64.so.6/'
$(GS)/hip/hip_stub.c: $(GS_SRC)/cudart_stub.c $(GS_SRC)/gpu_stub.mk
	@mkdir -p $(@D)
	$(GS_HIP) -e '/hip[A-Za-z]*_ptsz/d' $< >$@
$(GS)/hip/hip_target.c: $(GS_SRC)/gpu_target.c $(GS_SRC)/gpu_stub.mk
	@mkdir -p $(@D)
	$(GS_HIP) -e 's/\(hip[A-Za-z]*\)_ptsz/\1/g' $< >$@
$(GS)/libamdhip64.so.6: $(GS)/hip/hip_stub.c $(GS_SRC)/stub.h $(GS_SRC)/cudart.map $(GS)/libcuda.so.1
	$(GS_HIP) $(GS_SRC)/cudart.map >$(GS)/hip/hip.map
	$(CC) $(GS_LIB) -I$(GS_SRC) -Wl,-soname,libamdhip64.so.6 -Wl,--version-script,$(GS)/hip/hip.map $< -L$(GS) -l:libcuda.so.1 \
		-Wl,-rpath,'$$ORIGIN' -o $@
$(GS)/hip_target: $(GS)/hip/hip_target.c $(GS)/libamdhip64.so.6 $(GS)/libnccl.so.2
	$(CC) $(GS_CFLAGS) -I$(GS_SRC) $< -L$(GS) -l:libamdhip64.so.6 -l:libnccl.so.2 -l:libcuda.so.1 -Wl,-rpath,'$$ORIGIN' -o $@
$(GS)/events_json: $(GS_SRC)/events_json.c $(B)/libmemtrace.a
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $< $(B)/libmemtrace.a $(LIBS) -o $@

$(GS)/report_at: $(GS_SRC)/report_at.c $(B)/libmemtrace.a
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $< $(B)/libmemtrace.a $(LIBS) -o $@

.PHONY: gpu-stub
gpu-stub: $(GS)/gpu_target $(GS)/gpu_target_static $(GS)/hip_target $(GS)/events_json $(GS)/report_at

# The real libc10_cuda.so over the stub; tests/gpu_stub/fetch gets it and CUDA's headers.
GST := $(GS)/torch
GS_WHEELS := $(B)/gpu_wheels
$(GST)/libnvidia-ml.so.1: $(GS_SRC)/nvml_stub.c
	@mkdir -p $(@D)
	$(CC) $(GS_LIB) -Wl,-soname,libnvidia-ml.so.1 $< -o $@
$(GST)/libs: $(GS)/libcudart.so.13 $(GST)/libnvidia-ml.so.1 $(GS_WHEELS)/ready
	cp $(GS_WHEELS)/lib/libc10.so $(GS_WHEELS)/lib/libc10_cuda.so $(GS)/libcudart.so.13 $(GS)/libcuda.so.1 $(@D)
	touch $@
$(GST)/torch_target: $(GS_SRC)/torch_target.cpp $(GST)/libs
	$(CXX) -std=c++20 -O1 -g -pthread -isystem $(GS_WHEELS)/include -isystem $(GS_WHEELS)/cuda $< -L$(@D) -lc10 -lc10_cuda \
		-l:libcudart.so.13 -l:libcuda.so.1 -Wl,-rpath,'$$ORIGIN' -o $@
# Device "cuda" for the virtual environment's own torch: tests/e2e/run gpu_train
GS_VENV = $(shell $(B)/venv/bin/python -c 'import importlib.util as u; print(u.find_spec("torch").submodule_search_locations[0])')
$(GST)/libtorch_backend.so: $(GS_SRC)/torch_backend.cpp $(GST)/libs
	$(CXX) -std=c++20 -O1 -g1 -shared -fPIC -fvisibility=hidden -isystem $(GS_VENV)/include -isystem $(GS_WHEELS)/include \
		-isystem $(GS_WHEELS)/cuda $< -L$(@D) -lc10_cuda -L$(GS_VENV)/lib -ltorch_cpu -lc10 -Wl,-rpath,'$$ORIGIN' -o $@
$(GS)/gpu_rows: $(GS_SRC)/gpu_rows.c $(B)/libmemtrace.a
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $< $(B)/libmemtrace.a $(LIBS) -o $@

GPU_TESTS := gpu_stub gpu_torch gpu_report gpu_train
.PHONY: check-gpu-stub
check-gpu-stub: $(B)/memtrace gpu-stub ## PyTorch's CUDA allocator without a GPU (fetches 740 MB once, keeps 230)
	@tools/make-venv
	@if tests/gpu_stub/fetch $(GS_WHEELS); then tests/e2e/run $(GPU_TESTS); else \
		echo "check-gpu-stub: the wheels cannot be had; only the stub's own tests run"; tests/e2e/run gpu_stub; fi
