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
  NVML_FI_DEV_POWER_INSTANT = 186, /* mW; nvmlDeviceGetPowerUsage is the mean of a second since Ampere */
  NVML_VALUE_TYPE_UNSIGNED_INT = 1,
};

typedef struct
{
  unsigned field, scope;
  long long timestamp, latency_us;
  int type;
  nvmlReturn_t status;
  union
  {
    double number;
    unsigned u;
    unsigned long long ull;
  } value;
} nvmlFieldValue_t;

nvmlReturn_t nvmlInit_v2 (void);
nvmlReturn_t nvmlSystemGetDriverVersion (char *version, unsigned length);
nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2 (const char *bus, nvmlDevice_t *device);
nvmlReturn_t nvmlDeviceGetClockInfo (nvmlDevice_t device, int type, unsigned *mhz);
nvmlReturn_t nvmlDeviceGetMaxClockInfo (nvmlDevice_t device, int type, unsigned *mhz);
nvmlReturn_t nvmlDeviceGetPowerUsage (nvmlDevice_t device, unsigned *mw);
nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit (nvmlDevice_t device, unsigned *mw);
nvmlReturn_t nvmlDeviceGetTemperature (nvmlDevice_t device, int sensor, unsigned *celsius);
/* Not in every driver. */
nvmlReturn_t nvmlDeviceGetFieldValues (nvmlDevice_t device, int n, nvmlFieldValue_t *values);
nvmlReturn_t nvmlDeviceSetCpuAffinity (nvmlDevice_t device); /* of the calling thread: the cores next to the GPU */
