/* SPDX-License-Identifier: MIT */
/* nvml-api.h - the few functions of NVML that are used.  Its header comes with few toolkits. */
#pragma once

typedef struct nvmlDevice_st *nvmlDevice_t;
typedef int nvmlReturn_t; /* 0: success */

enum
{
  NVML_CLOCK_SM = 1,
  NVML_CLOCK_MEM = 2,
  NVML_TEMPERATURE_GPU = 0,
};

nvmlReturn_t nvmlInit_v2 (void);
nvmlReturn_t nvmlSystemGetDriverVersion (char *version, unsigned length);
nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2 (const char *bus, nvmlDevice_t *device);
nvmlReturn_t nvmlDeviceGetClockInfo (nvmlDevice_t device, int type, unsigned *mhz);
nvmlReturn_t nvmlDeviceGetMaxClockInfo (nvmlDevice_t device, int type, unsigned *mhz);
nvmlReturn_t nvmlDeviceGetPowerUsage (nvmlDevice_t device, unsigned *mw);
nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit (nvmlDevice_t device, unsigned *mw);
nvmlReturn_t nvmlDeviceGetTemperature (nvmlDevice_t device, int sensor, unsigned *celsius);
