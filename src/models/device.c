/* SPDX-License-Identifier: GPL-3.0-or-later */
/* device.c - looking things up in the description of a GPU. */
#include <gsl/gsl_errno.h>
#include <gsl/gsl_interp.h>
#include <math.h>
#include "models/samples.h"

static const struct
{
  const char *name;
  double bytes;
} dtypes[] = {
  [SC_DTYPE_BF16] = { "bf16", 2 },
  [SC_DTYPE_FP16] = { "fp16", 2 },
  [SC_DTYPE_FP32] = { "fp32", 4 },
  [SC_DTYPE_FP8] = { "fp8", 1 },
  [SC_DTYPE_FP4] = { "fp4", 0.5625 },
};
G_STATIC_ASSERT (G_N_ELEMENTS (dtypes) == SC_N_DTYPES);

const char *
sc_dtype_name (ScDtype dtype)
{
  g_return_val_if_fail ((guint) dtype < SC_N_DTYPES, NULL);
  return dtypes[dtype].name;
}

double
sc_dtype_bytes (ScDtype dtype)
{
  g_return_val_if_fail ((guint) dtype < SC_N_DTYPES, 0);
  return dtypes[dtype].bytes;
}

void
sc_device_free (ScDevice *device)
{
  if (device == NULL)
    return;
  g_free (device->name);
  g_strfreev (device->aliases);
  g_free (device->summary);
  g_free (device->family);
  for (guint i = 0; i < SC_N_DTYPES; i++)
    sc_cited_clear (&device->peak_flops[i]);
  ScCited *const cited[] = {
    &device->sms,
    &device->memory_bytes,
    &device->memory_bytes_per_s,
    &device->l2_bytes,
    &device->gemm_tile_efficiency,
    &device->gemm_sustained,
    &device->gemm_accumulate,
    &device->batched_gemm_efficiency,
    &device->elementwise_bytes_per_s,
    &device->reduction_bytes_per_s,
    &device->optimizer_bytes_per_s,
    &device->half_bytes,
    &device->h2d_bytes_per_s,
    &device->d2h_bytes_per_s,
    &device->launch_s,
    &device->hidden_slowdown,
    &device->memory_slowdown,
    &device->context_bytes,
    &device->workspace_bytes,
  };
  for (guint i = 0; i < G_N_ELEMENTS (cited); i++)
    sc_cited_clear (cited[i]);
  sc_curve_clear (&device->flash_forward);
  sc_curve_clear (&device->flash_backward);
  g_clear_pointer (&device->tables, g_ptr_array_unref);
  g_free (device->reference_name);
  g_free (device->relative_name);
  sc_device_free (device->relative);
  g_free (device);
}

static void
scale_curve (ScCurve *curve, double factor)
{
  for (guint i = 0; i < curve->n; i++)
    curve->y[i] *= factor;
}

void
sc_device_scale (ScDevice *device, const ScDeviceScale *scale)
{
  for (guint i = 0; i < SC_N_DTYPES; i++)
    device->peak_flops[i].value *= scale->matrix;
  scale_curve (&device->flash_forward, scale->matrix);
  scale_curve (&device->flash_backward, scale->matrix);
  /* half_bytes is a time, the ramp's, as bytes at the full rate */
  ScCited *const memory[] = { &device->memory_bytes_per_s, &device->elementwise_bytes_per_s, &device->reduction_bytes_per_s,
                              &device->optimizer_bytes_per_s, &device->half_bytes };
  for (guint i = 0; i < G_N_ELEMENTS (memory); i++)
    memory[i]->value *= scale->hbm;
  device->h2d_bytes_per_s.value *= scale->pcie;
  device->d2h_bytes_per_s.value *= scale->pcie;
  device->launch_s.value *= scale->launch;
}

double
sc_curve_at (const ScCurve *curve, double x)
{
  const guint n = curve->n;
  g_return_val_if_fail (n > 0, 0);
  if (n == 1 || x <= curve->x[0])
    return curve->y[0];
  if (x >= curve->x[n - 1])
    return curve->y[n - 1];

  g_autofree double *log_x = g_new (double, n);
  for (guint i = 0; i < n; i++)
    log_x[i] = log (curve->x[i]);
  /* Steffen's monotone cubic never overshoots its points; it needs three of them. */
  const gsl_interp_type *type =
      n >= gsl_interp_type_min_size (gsl_interp_steffen) ? gsl_interp_steffen : gsl_interp_linear;
  gsl_interp *interp = gsl_interp_alloc (type, n);
  g_assert (interp != NULL);
  double y = curve->y[0];
  int status = gsl_interp_init (interp, log_x, curve->y, n);
  if (status == GSL_SUCCESS)
    status = gsl_interp_eval_e (interp, log_x, curve->y, log (x), NULL, &y);
  gsl_interp_free (interp);
  g_assert (status == GSL_SUCCESS); /* only unsorted points fail, and readers refuse those */
  return y;
}
