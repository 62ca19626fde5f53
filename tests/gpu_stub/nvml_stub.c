/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* libnvidia-ml.so.1 of the stub: what PyTorch (2.13) asks before it maps expandable segments. A machine without NVLink. */
#define API __attribute__((visibility("default")))
#define NOT_SUPPORTED 3

/* What is asked for is left as the caller has set it: zeros, no fabric. */
#define SAYS(name, ret) \
	int name(void); \
	API int name(void) { return ret; }

SAYS(nvmlInit_v2, 0)
SAYS(nvmlDeviceGetGpuFabricInfoV, 0)
SAYS(nvmlDeviceGetNvLinkRemoteDeviceType, NOT_SUPPORTED)
SAYS(nvmlDeviceGetNvLinkRemotePciInfo_v2, NOT_SUPPORTED)
SAYS(nvmlSystemGetCudaDriverVersion_v2, NOT_SUPPORTED)

int nvmlDeviceGetHandleByPciBusId_v2(const char *id, void **ret);
API int nvmlDeviceGetHandleByPciBusId_v2(const char *id, void **ret)
{
	static int any;

	(void)id;
	*ret = &any;
	return 0;
}

int nvmlDeviceGetComputeRunningProcesses(void *dev, unsigned *cnt, void *ret);
API int nvmlDeviceGetComputeRunningProcesses(void *dev, unsigned *cnt, void *ret)
{
	(void)dev;
	(void)ret;
	*cnt = 0;
	return 0;
}
