/* SPDX-License-Identifier: GPL-3.0-or-later */
/* report-html.c - the page: its parts as HTML, and the timeline's data, which its script draws. */
#include "report-html.h"
#include "describe.h"
#include "report-memory.h"
#include "report.h"
#include "timeline-blocks.h"
#include "units.h"

#define MAX_LINKS 12
#define FINEST    4000 /* parts of the step that pieces beside passes are told apart in */

/* By Okabe and Ito (Color universal design, 2008), which colour-blind readers tell apart; as in the other pictures. */
static const char *const colours[SC_N_TIMES] = {
  [SC_TIME_FORWARD] = "#56b4e9", [SC_TIME_BACKWARD] = "#0072b2", [SC_TIME_WEIGHT] = "#009e73",  [SC_TIME_RECOMPUTE] = "#f0e442", [SC_TIME_OPTIMIZER] = "#cc79a7",
  [SC_TIME_COMM_TP] = "#e69f00", [SC_TIME_COMM_CP] = "#d0c000",  [SC_TIME_COMM_EP] = "#a04080", [SC_TIME_COMM_PP] = "#666666",   [SC_TIME_COMM_DP] = "#d55e00",
  [SC_TIME_BUBBLE] = "#eeeeee",  [SC_TIME_LATE_PEER] = "#dddddd", [SC_TIME_HOST] = "#bbbbbb",
};

static const char style[] =
    "<style>\n"
    "body{font:14px/1.45 system-ui,sans-serif;margin:24px auto;max-width:1200px;padding:0 16px;color:#222}\n"
    "h1{font-size:22px;margin:0}h2{font-size:17px;margin:28px 0 8px}.sub{color:#555;margin:2px 0}\n"
    ".cards{display:flex;flex-wrap:wrap;gap:12px;margin:16px 0}.card{border:1px solid #ddd;border-radius:6px;padding:8px 14px}.card b{display:block;font-size:18px}\n"
    ".bar{display:flex;height:22px;margin:2px 0;background:#eee}.bar span{display:block;height:100%}.row{display:grid;grid-template-columns:70px 1fr;align-items:center;gap:8px}\n"
    ".legend span{display:inline-block;margin:4px 14px 4px 0}.legend i{display:inline-block;width:12px;height:12px;margin-right:5px;vertical-align:-1px}\n"
    "table{border-collapse:collapse}td,th{padding:3px 12px 3px 0;text-align:right;font-variant-numeric:tabular-nums}td:first-child,th:first-child{text-align:left}\n"
    "canvas{width:100%;display:block;cursor:grab;border:1px solid #ddd}#tip{position:fixed;background:#222;color:#fff;padding:4px 8px;border-radius:4px;font-size:12px;pointer-events:none;display:none}\n"
    "pre{background:#f7f7f7;padding:10px;overflow:auto;font-size:12px}svg{max-width:100%;height:auto}\n"
    "</style>\n";

/* D: {step, rows: [{stage, blocks: [from, to, micro-batch, chunk, pass, ...], others: [from, to, kind, ...]}], names, colours}; times in ns. */
static const char script[] =
    "<script>\n"
    "(function(){\n"
    "var c=document.getElementById('tl'),tip=document.getElementById('tip'),g=c.getContext('2d'),n=D.rows.length;\n"
    "var h=n<=16?26:n<=32?16:10,pitch=h+(n<=16?8:4),left=44,a=0,b=D.step,W,drag=null;\n"
    "var pass=['forward','backward','weight gradients'],kind=[0,1,2];\n"
    "function t2x(t){return left+(t-a)/(b-a)*(W-left-4)}\n"
    "function x2t(x){return a+(x-left)/(W-left-4)*(b-a)}\n"
    "function nice(t){return t>=1e9?+(t/1e9).toPrecision(6)+' s':t>=1e6?+(t/1e6).toPrecision(6)+' ms':+(t/1e3).toPrecision(6)+' us'}\n"
    "function rect(f,t,y,hh,col,gap){if(t<a||f>b)return 0;var x=Math.max(t2x(f),left),w=Math.min(t2x(t),W-4)-x;g.fillStyle=col;g.fillRect(x,y,Math.max(w-(gap&&w>2?0.7:0),0.4),hh);return w}\n"
    "function draw(){var r=window.devicePixelRatio||1;W=c.clientWidth;var H=n*pitch+34;c.style.height=H+'px';c.width=W*r;c.height=H*r;g.setTransform(r,0,0,r,0,0);g.clearRect(0,0,W,H);\n"
    "g.font='11px sans-serif';g.textBaseline='middle';\n"
    "for(var i=0;i<n;i++){var R=D.rows[i],y=4+i*pitch,B=R.blocks,O=R.others,k;g.fillStyle='#eee';g.fillRect(left,y,W-left-4,h);g.fillStyle='#222';g.textAlign='right';g.fillText(R.stage,left-8,y+h/2);g.textAlign='center';\n"
    "for(k=0;k<B.length;k+=5){g.globalAlpha=[1,0.72,0.5][B[k+3]%3];var w=rect(B[k],B[k+1],y,h,D.colours[kind[B[k+4]]],1);g.globalAlpha=1;if(w>String(B[k+2]).length*7+4&&h>=12&&t2x(B[k])>=left){g.fillStyle=B[k+4]?'#fff':'#000';g.fillText(B[k+2],t2x(B[k])+w/2,y+h/2)}}\n"
    "for(k=0;k<O.length;k+=4)rect(O[k],O[k+1],O[k+3]?y+h*0.75:y,O[k+3]?h*0.25:h,D.colours[O[k+2]])}\n"
    "var y0=4+n*pitch,s=Math.pow(10,Math.floor(Math.log10((b-a)/6))),m=(b-a)/6/s;s*=m>5?10:m>2?5:m>1?2:1;g.fillStyle='#222';\n"
    "for(var t=Math.ceil(a/s)*s;t<=b;t+=s){g.fillRect(t2x(t),y0,1,5);g.fillText(nice(t),Math.min(Math.max(t2x(t),left+20),W-30),y0+16)}}\n"
    "function at(e){var q=c.getBoundingClientRect();return [e.clientX-q.left,e.clientY-q.top]}\n"
    "c.addEventListener('wheel',function(e){e.preventDefault();var t=x2t(at(e)[0]),f=e.deltaY>0?1.25:0.8,w=Math.min(Math.max((b-a)*f,D.step/1e5),D.step);a=Math.max(0,Math.min(t-(t-a)/(b-a)*w,D.step-w));b=a+w;draw()},{passive:false});\n"
    "c.addEventListener('mousedown',function(e){drag=[at(e)[0],a]});window.addEventListener('mouseup',function(){drag=null});\n"
    "c.addEventListener('dblclick',function(){a=0;b=D.step;draw()});\n"
    "c.addEventListener('mouseleave',function(){tip.style.display='none'});\n"
    "c.addEventListener('mousemove',function(e){var p=at(e),w=b-a;if(drag){a=Math.max(0,Math.min(drag[1]-(p[0]-drag[0])/(W-left-4)*w,D.step-w));b=a+w;draw();return}\n"
    "var i=Math.floor((p[1]-4)/pitch),t=x2t(p[0]),s='';if(i>=0&&i<n&&t>=0&&t<=D.step){var R=D.rows[i],B=R.blocks,O=R.others,k;for(k=0;k<B.length;k+=5)if(B[k]<=t&&t<B[k+1])s=pass[B[k+4]]+' of micro-batch '+B[k+2]+(R.chunks>1?', chunk '+B[k+3]:'')+', '+nice(B[k+1]-B[k])+' from '+nice(B[k]);\n"
    "for(k=0;k<O.length;k+=4)if(O[k]<=t&&t<O[k+1]&&(!O[k+3]||p[1]-4-i*pitch>h*0.75))s=D.names[O[k+2]]+', '+nice(O[k+1]-O[k])+(s?'; in '+s:'');s='stage '+R.stage+': '+(s||'waiting')}\n"
    "tip.style.display=s?'block':'none';tip.textContent=s;tip.style.left=Math.min(e.clientX+12,window.innerWidth-360)+'px';tip.style.top=e.clientY+14+'px'});\n"
    "window.addEventListener('resize',draw);draw()})();\n"
    "</script>\n";

static void
put_escaped (GString *out, const char *text)
{
  g_autofree char *valid = g_utf8_make_valid (text, -1), *escaped = g_markup_escape_text (valid, -1);
  g_string_append (out, escaped);
}

/* ---- The timeline's data ---- */

static gint64
to_ns (ScTime t)
{
  return t / 1000;
}

/* What is done or waited for beside passes: "from,to,kind,inside"; pieces of a kind that are nearer than the finest part are one. */
static void
put_others (const ScSummary *s, const GArray *segments, const GArray *blocks, GString *out)
{
  const ScTime finest = s->trace->end / FINEST;
  gboolean any = FALSE;
  for (guint kind = 0; kind < SC_N_TIMES; kind++)
    {
      if (kind <= SC_TIME_WEIGHT || kind == SC_TIME_BUBBLE || kind == SC_TIME_LATE_PEER)
        continue;
      ScTime from = 0, to = -1;
      gboolean inside = FALSE;
      guint b = 0;
      for (guint i = 0; i <= segments->len; i++)
        {
          const ScSegment *const g = i < segments->len ? &g_array_index (segments, ScSegment, i) : NULL;
          if (g != NULL && g->kind != (ScTimeKind) kind)
            continue;
          while (g != NULL && b < blocks->len && g_array_index (blocks, ScBlock, b).to <= g->from)
            b++;
          const gboolean here = g != NULL && b < blocks->len && g_array_index (blocks, ScBlock, b).from < g->to;
          if (g != NULL && to >= 0 && here == inside && g->from - to <= finest)
            {
              to = g->to;
              continue;
            }
          if (to >= 0)
            {
              g_string_append_printf (out, "%s%" G_GINT64_FORMAT ",%" G_GINT64_FORMAT ",%u,%d", any ? "," : "", to_ns (from), to_ns (to), kind, inside ? 1 : 0);
              any = TRUE;
            }
          if (g != NULL)
            {
              from = g->from;
              to = g->to;
              inside = here;
            }
        }
    }
}

static void
put_data (const ScSummary *s, GString *out)
{
  g_autoptr (ScSegments) all = sc_segments_new (s->program, s->trace, s->trace->end);
  g_string_append_printf (out, "<script>\nvar D={step:%" G_GINT64_FORMAT ",rows:[\n", to_ns (s->trace->end));
  for (guint i = 0; i < s->n_stages; i++)
    {
      g_autoptr (GArray) segments = sc_segments_of_class (all, s->stages[i].class_id);
      g_autoptr (GArray) blocks = sc_timeline_blocks (s, segments);
      g_string_append_printf (out, "{stage:%u,chunks:%u,blocks:[", s->stages[i].stage, s->workload->plan.vpp);
      for (guint k = 0; k < blocks->len; k++)
        {
          const ScBlock *const b = &g_array_index (blocks, ScBlock, k);
          g_string_append_printf (out, "%s%" G_GINT64_FORMAT ",%" G_GINT64_FORMAT ",%u,%u,%u", k > 0 ? "," : "", to_ns (b->from), to_ns (b->to), b->microbatch, b->chunk, (guint) b->pass);
        }
      g_string_append (out, "],others:[");
      put_others (s, segments, blocks, out);
      g_string_append (out, "]},\n");
    }
  g_string_append (out, "],names:[");
  for (guint k = 0; k < SC_N_TIMES; k++)
    g_string_append_printf (out, "\"%s\",", sc_time_kind_label ((ScTimeKind) k));
  g_string_append (out, "],colours:[");
  for (guint k = 0; k < SC_N_TIMES; k++)
    g_string_append_printf (out, "\"%s\",", colours[k]);
  g_string_append (out, "]};\n</script>\n");
}

/* ---- The parts of the page ---- */

static void
put_card (GString *out, const char *what, const char *value, const char *more)
{
  g_string_append_printf (out, "<div class=\"card\">%s<b>%s</b>%s</div>\n", what, value, more);
}

static void
put_cards (const ScSummary *s, GString *out)
{
  const ScClassSummary *const c = &s->classes[s->memory_class];
  g_autofree char *step = sc_format_seconds (sc_time_to_s (s->step)), *tokens = sc_format_count (s->tokens_per_s), *each = sc_format_count (s->tokens_per_s_per_gpu);
  g_autofree char *each_text = g_strdup_printf ("%s tokens/s per GPU", each), *mfu = g_strdup_printf ("%.1f %%", 100 * s->mfu_half_causal),
                  *flops = g_strdup_printf ("%.1f TFLOP/s per GPU", s->model_tflops_per_gpu), *bubble = g_strdup_printf ("%.1f %%", 100 * s->bubble_fraction),
                  *needs = sc_format_bytes ((double) c->peak_device_bytes), *has = sc_format_bytes ((double) c->capacity_bytes),
                  *verdict = g_strdup_printf ("%s: of %s, stage %u", sc_verdict_name (s->verdict), has, c->stage), *rate = g_strdup_printf ("%s tokens/s", tokens);
  g_string_append (out, "<div class=\"cards\">\n");
  put_card (out, "step", step, rate);
  put_card (out, "MFU", mfu, flops);
  put_card (out, "throughput", each_text, "");
  put_card (out, "bubble", bubble, "of the step, mean over stages");
  put_card (out, "memory, fullest GPU", needs, verdict);
  g_string_append (out, "</div>\n");
}

static void
put_time (const ScSummary *s, GString *out)
{
  gboolean used[SC_N_TIMES] = { FALSE };
  g_string_append (out, "<h2>Where the time goes</h2>\n");
  for (guint i = 0; i < s->n_stages; i++)
    {
      g_string_append_printf (out, "<div class=\"row\"><span>stage %u</span><div class=\"bar\">", s->stages[i].stage);
      for (guint k = 0; k < SC_N_TIMES; k++)
        {
          const double part = 100 * (double) s->stages[i].time[k] / (double) s->step;
          if (s->stages[i].time[k] == 0)
            continue;
          used[k] = TRUE;
          g_string_append_printf (out, "<span style=\"width:%.3f%%;background:%s\" title=\"%s %.1f %%\"></span>", part, colours[k], sc_time_kind_label ((ScTimeKind) k), part);
        }
      g_string_append (out, "</div></div>\n");
    }
  g_string_append (out, "<div class=\"legend\">");
  for (guint k = 0; k < SC_N_TIMES; k++)
    if (used[k])
      g_string_append_printf (out, "<span><i style=\"background:%s\"></i>%s</span>", colours[k], sc_time_kind_label ((ScTimeKind) k));
  g_string_append (out, "</div>\n");
}

static void
put_links (const ScSummary *s, GString *out)
{
  if (s->links == NULL || s->links->n_rows == 0)
    return;
  g_string_append (out, "<h2>Hottest links</h2>\n<table><tr><th>the first of</th><th>links</th><th>capacity</th><th>mean</th><th>peak</th></tr>\n");
  for (guint i = 0; i < MIN (s->links->n_rows, MAX_LINKS) && s->links->rows[i].mean > 0; i++)
    {
      const ScLinkSummary *const l = &s->links->rows[i];
      g_autofree char *rate = sc_format_rate (l->capacity_bytes_per_s);
      g_string_append (out, "<tr><td>");
      put_escaped (out, l->name);
      g_string_append_printf (out, "</td><td>%u</td><td>%s</td><td>%.1f %%</td><td>%.1f %%</td></tr>\n", l->n_links, rate, 100 * l->mean, 100 * l->peak);
    }
  g_string_append (out, "</table>\n");
}

static void
put_text (const char *title, const char *text, GString *out)
{
  g_string_append_printf (out, "<details><summary>%s</summary><pre>", title);
  put_escaped (out, text);
  g_string_append (out, "</pre></details>\n");
}

void
sc_report_html (const ScSummary *s, const char *topology_text, const char *workload_text, char **set, GString *out)
{
  g_autoptr (GString) line = g_string_new (NULL), report = g_string_new (NULL);
  g_string_append (out, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>");
  put_escaped (out, s->workload->name);
  g_string_append_printf (out, ": one step</title>\n%s</head><body>\n<h1>", style);
  put_escaped (out, s->workload->name);
  g_string_append (out, "</h1>\n");
  void (*const lines[]) (const ScWorkload *workload, GString *text) = { sc_describe_plan, sc_describe_model };
  sc_describe_hardware (s, line);
  for (guint i = 0; i <= G_N_ELEMENTS (lines); i++)
    {
      g_string_append (out, "<div class=\"sub\">");
      put_escaped (out, line->str);
      g_string_append (out, "</div>\n");
      g_string_truncate (line, 0);
      if (i < G_N_ELEMENTS (lines))
        lines[i](s->workload, line);
    }
  put_cards (s, out);
  g_string_append (out, "<h2>Timeline</h2>\n<div class=\"sub\">A row for each stage. Scroll to zoom, drag to move, double-click for all of the step.</div>\n<canvas id=\"tl\"></canvas><div id=\"tip\"></div>\n");
  put_time (s, out);
  g_string_append (out, "<h2>Memory</h2>\n");
  sc_report_memory_svg (s, out);
  put_links (s, out);
  g_string_append (out, "<h2>All of the report, and the inputs</h2>\n");
  if (sc_report_text.write (s, report, NULL))
    put_text ("report", report->str, out);
  put_text ("topology", topology_text, out);
  put_text ("workload", workload_text, out);
  if (set != NULL && set[0] != NULL)
    {
      g_autofree char *keys = g_strjoinv ("\n", set);
      put_text ("--set", keys, out);
    }
  put_data (s, out);
  g_string_append (out, script);
  g_string_append (out, "</body></html>\n");
}
