/* The page's frame: style for light and dark, wide and narrow; a few lines of script that show the values under the pointer. Nothing is
 * loaded from anywhere, and the page's policy forbids it.
 */
#include "jobs/report/report_page.h"

static const char style[] =
    ":root{--bg:#f6f7f9;--card:#fff;--ink:#17202b;--dim:#5c6875;--line:#e3e7ec;--off:#8793a01f;--c1:#2f7d5b;--c2:#d1495b;--c3:#3a76c4;"
    "--c4:#e09f3e;--c5:#7a5ea8;--c6:#b8c1cb;--c7:#198f9c;--c8:#8f5a3c;--good:#2f7d5b;--mid:#c8811a;--bad:#c93a4d}"
    "@media(prefers-color-scheme:dark){:root{--bg:#12161c;--card:#1b212a;--ink:#e8edf3;--dim:#98a5b3;--line:#2c3541;--off:#c5d0dc14;"
    "--c1:#4fb286;--c2:#f07485;--c3:#6ea6ee;--c4:#f0b85c;--c5:#a98bdc;--c6:#4a5664;--c7:#42bdc9;--c8:#c08a68;--good:#4fb286;--mid:#f0b85c;"
    "--bad:#f07485}}"
    "*{box-sizing:border-box}body{margin:0;background:var(--bg);color:var(--ink);font:16px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,"
    "'Helvetica Neue',sans-serif;overflow-wrap:anywhere}main{max-width:1120px;margin:0 auto;padding:28px 20px 60px}"
    "header p{margin:0;color:var(--dim);font-size:14px}h1{font-size:20px;margin:0 0 20px;font-weight:650}"
    "h2{font-size:17px;margin:34px 0 10px}"
    ".card{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:20px 22px}.sides{display:grid;gap:16px;"
    "grid-template-columns:repeat(auto-fit,minmax(300px,1fr))}"
    ".verdict{border-left:6px solid var(--mid)}.verdict.none{border-left-color:var(--good)}.verdict.high{border-left-color:var(--bad)}"
    ".verdict .what{font-size:27px;font-weight:700;line-height:1.2;margin:2px 0 14px}.verdict small{color:var(--dim)}"
    ".verdict .say{margin:-6px 0 16px;max-width:46em}"
    ".split{display:flex;gap:2px;height:14px;border-radius:7px;overflow:hidden;margin:20px 0 8px}"
    ".split i{flex:0 1 0;min-width:0}.pair{display:grid;gap:0 16px;grid-template-columns:repeat(auto-fit,minmax(min(420px,100%),1fr))}"
    ".pair>div{display:flex;flex-direction:column;min-width:0}.pair .card{flex:1}"
    "h2 small{font-weight:400;color:var(--dim);margin-left:10px}"
    ".e{stroke:var(--dim);stroke-width:1;stroke-dasharray:3 3;vector-effect:non-scaling-stroke;opacity:.8}"
    ".grid>figure:last-child:nth-child(odd){grid-column:1/-1}"
    ".figures{display:flex;flex-wrap:wrap;gap:12px 38px}.figures div b{display:block;font-size:25px;font-weight:650;line-height:1.2;"
    "font-variant-numeric:tabular-nums}.figures div span{color:var(--dim);font-size:13px}"
    "ul.evidence{margin:0;padding-left:20px}ul.evidence li{margin:5px 0}"
    "table{width:100%;border-collapse:collapse;font-variant-numeric:tabular-nums}"
    "th{font-size:13px;font-weight:500;color:var(--dim);text-align:left}"
    "td,th{padding:9px 10px 9px 0;border-bottom:1px solid var(--line);vertical-align:top}tr:last-child td{border-bottom:0}"
    "td.n,th.n{text-align:right;white-space:nowrap;padding-right:18px}td.n.good{color:var(--good)}td.n.bad{color:var(--bad)}"
    ".bar{display:inline-block;height:9px;border-radius:5px;background:var(--c1);vertical-align:middle;min-width:3px}"
    ".grid{display:grid;gap:16px;grid-template-columns:repeat(auto-fit,minmax(min(480px,100%),1fr))}"
    "figure{margin:0;background:var(--card);border:1px solid var(--line);border-radius:12px;padding:14px 16px 12px;min-width:0}"
    "figcaption{display:flex;justify-content:space-between;gap:10px;font-weight:600;font-size:15px;margin-bottom:8px}"
    "figcaption .y{color:var(--dim);font-weight:400;font-size:13px;white-space:nowrap}"
    "svg{display:block;width:100%;height:120px;border-bottom:1px solid var(--line)}"
    ".x{display:flex;justify-content:space-between;color:var(--dim);"
    "font-size:12px;margin-top:3px}.k{display:flex;flex-wrap:wrap;gap:2px 16px;font-size:13px;color:var(--dim);margin-top:6px}"
    ".k i{display:inline-block;width:10px;height:10px;border-radius:3px;margin-right:6px}.k b{color:var(--ink);font-weight:600}"
    ".a{opacity:.88}.l{fill:none!important;stroke-width:2;vector-effect:non-scaling-stroke}.g{stroke:var(--line);stroke-width:1;"
    "vector-effect:non-scaling-stroke;opacity:.7}.h{stroke:var(--ink);stroke-width:1;vector-effect:non-scaling-stroke;visibility:hidden}"
    ".off{fill:var(--off)}footer{margin-top:36px;color:var(--dim);font-size:13px}"
    ".c1{fill:var(--c1);stroke:var(--c1)}i.c1{background:var(--c1)}.c2{fill:var(--c2);stroke:var(--c2)}i.c2{background:var(--c2)}"
    ".c3{fill:var(--c3);stroke:var(--c3)}i.c3{background:var(--c3)}.c4{fill:var(--c4);stroke:var(--c4)}i.c4{background:var(--c4)}"
    ".c5{fill:var(--c5);stroke:var(--c5)}i.c5{background:var(--c5)}.c6{fill:var(--c6);stroke:var(--c6)}i.c6{background:var(--c6)}"
    ".c7{fill:var(--c7);stroke:var(--c7)}i.c7{background:var(--c7)}.c8{fill:var(--c8);stroke:var(--c8)}i.c8{background:var(--c8)}"
    ".a{stroke:none}@media(max-width:520px){main{padding:18px 12px 40px}.card{padding:16px}.verdict .what{font-size:22px}"
    ".hide{display:none}"
    "svg{height:100px}}@media print{body{background:#fff}}";

static const char script[] =
    "document.querySelectorAll('figure.chart').forEach(f=>{const d=JSON.parse(f.querySelector('.v').textContent),s=f.querySelector('svg'),"
    "h=f.querySelector('.h'),b=f.querySelectorAll('.k b'),u=f.dataset.unit,end=d.t[d.t.length-1];"
    "const at=e=>{const r=s.getBoundingClientRect(),t=(e.clientX-r.left)/r.width*end;let i=0;while(i<d.t.length-1&&d.t[i]<t)i++;"
    "h.setAttribute('d','M'+1000*d.t[i]/end+' 0V100');h.style.visibility='visible';"
    "b.forEach((x,k)=>x.textContent=d.v[k][i]===null?'n/a':d.v[k][i]+' '+u)};"
    "s.addEventListener('pointermove',at);"
    "s.addEventListener('pointerleave',()=>{h.style.visibility='hidden';b.forEach(x=>x.textContent='')})})";

void page_begin(struct text *t, const char *title)
{
    text_printf(t, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width,"
                   "initial-scale=1\"><meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none';style-src 'unsafe-inline';"
                   "script-src 'unsafe-inline';img-src data:\"><meta name=\"color-scheme\" content=\"light dark\">"
                   "<link rel=\"icon\" href=\"data:,\"><title>");
    page_escape(t, title);
    text_printf(t, "</title><style>%s</style></head><body><main>\n", style);
}

void page_end(struct text *t)
{
    text_printf(t,
                "<footer>Made by fullbore %s from a recording. Shaded: start-up and end, left out of the verdict. "
                "Figures that could not be read are left out, never shown as 0.</footer></main><script>%s</script></body></html>\n",
                fb_version(), script);
}
