"""The style sheet of a card: for phones, dark mode, print and colour-blind readers."""

__all__ = ["CSS"]

CSS = """
:root{color-scheme:light dark;--bg:#ffffff;--panel:#f4f6f8;--fg:#1f2328;--muted:#57606a;--line:#c9d1d9;--link:#005a8c;
--blue:#0072b2;--orange:#b87900;--red:#c24a00;--lightblue:#b8d4e8;
--danger-bg:#fdecea;--danger:#9b1c10;--warning-bg:#fff4d6;--warning:#6b4700;--note-bg:#e8f2fa;--note:#0b4a73}
@media (prefers-color-scheme:dark){:root{--bg:#14171b;--panel:#1e2329;--fg:#e8eaed;--muted:#a8b0ba;
--line:#3d444d;--link:#7cc4f5;--blue:#56b4e9;--orange:#f0b429;--red:#ff9466;--lightblue:#2b5875;
--danger-bg:#3b1613;--danger:#ffb4a9;--warning-bg:#382a05;--warning:#ffd978;--note-bg:#10293b;--note:#a9d8f7}}
*{box-sizing:border-box}
html{scroll-behavior:smooth}
body{margin:0 auto;padding:0 1rem 3rem;max-width:52rem;background:var(--bg);color:var(--fg);
font:1rem/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif;overflow-wrap:anywhere}
h1{font-size:1.75rem;line-height:1.2;margin:1.6rem 0 .8rem}
h2{font-size:1.3rem;margin:2.4rem 0 .6rem;padding-top:.4rem;border-top:1px solid var(--line)}
h3{font-size:1.05rem;margin:1.4rem 0 .4rem}
h4{font-size:1rem;margin:1rem 0 .3rem}
a{color:var(--link)}
a:focus-visible,summary:focus-visible,.scroll:focus-visible{outline:3px solid var(--blue);outline-offset:2px}
.skip{position:absolute;left:-999rem;background:var(--bg);padding:.5rem 1rem;z-index:2}
.skip:focus{left:.5rem;top:.5rem}
.subtitle{font-size:1.1rem;margin:-.4rem 0 .3rem;color:var(--muted)}
.byline{margin:.2rem 0 .9rem}
.tiles{display:flex;flex-wrap:wrap;gap:.6rem;margin:0}
.tiles div{flex:1 1 auto;background:var(--panel);border:1px solid var(--line);border-radius:.5rem;padding:.5rem .8rem}
.tiles dt{color:var(--muted);font-size:.85rem}
.tiles dd{margin:0;font-size:1.15rem;font-weight:600}
nav ul{list-style:none;display:flex;flex-wrap:wrap;gap:.2rem 1.1rem;margin:1rem 0 0;padding:0}
nav a{display:inline-block;padding:.3rem 0}
.notice{border-left:.4rem solid;border-radius:.3rem;padding:.1rem 1rem;margin:1rem 0}
.danger{background:var(--danger-bg);color:var(--danger);font-size:1.15rem}
.warning{background:var(--warning-bg);color:var(--warning)}
.note{background:var(--note-bg);color:var(--note)}
.scroll{overflow-x:auto;max-width:100%}
.formula{font-size:1.2rem;padding:.6rem 0}
table{border-collapse:collapse;min-width:50%;margin:.1rem 0 .6rem;font-size:.95rem;overflow-wrap:normal}
th,td{text-align:left;vertical-align:top;padding:.3rem .8rem .3rem 0;border-bottom:1px solid var(--line)}
thead th{color:var(--muted);font-weight:600;border-bottom:2px solid var(--line)}
tbody th{font-weight:500;min-width:7.5rem;max-width:22rem;overflow-wrap:anywhere}
td{min-width:4.5rem}
td:nth-child(n+3):last-child{min-width:9rem}
.numbers td:last-child{min-width:4.5rem}
.numbers td,.numbers thead th+th{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.numbers thead th+th{white-space:normal}
.interval{display:block;color:var(--muted);font-size:.85em;white-space:nowrap}
.facts{min-width:100%}
.gallery{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,21rem),1fr));gap:0 1.6rem;
align-items:start}
figure{margin:1.2rem 0 .4rem;min-width:0}
figure h3{margin-bottom:.5rem}
svg{display:block;width:100%;height:auto;max-width:46rem;fill:currentColor}
figcaption,.hint,footer{color:var(--muted);font-size:.9rem}
figcaption{margin-top:.4rem}
details{border:1px solid var(--line);border-radius:.4rem;margin:1rem 0;padding:0 .9rem}
summary{cursor:pointer;padding:.6rem 0;font-weight:600}
.label{margin:.9rem 0 .2rem;font-weight:600}
pre{background:var(--panel);border:1px solid var(--line);border-radius:.4rem;padding:.7rem .9rem;margin:0;
font-size:.85rem;line-height:1.45;overflow-wrap:normal}
footer{margin-top:3rem;border-top:1px solid var(--line)}
@media (max-width:30rem){body{padding:0 .8rem 2rem}h1{font-size:1.45rem}table{font-size:.82rem;width:100%}
thead th{font-size:.78rem}
th,td{padding-right:.45rem}tbody th{min-width:4.9rem;max-width:9rem}
td,td:nth-child(n+3):last-child,.numbers td:last-child{min-width:0}
.numbers td{white-space:normal}.interval{white-space:normal}.many .interval{white-space:nowrap}
.facts tbody th{width:6.5rem}
.wide,.wide thead th{font-size:.72rem}.wide th,.wide td{padding-right:.12rem}.wide tbody th{min-width:0}
.wide thead th:first-child{padding-right:.4rem}}
@page{margin:9mm 11mm}
@media print{
:root{color-scheme:light;--bg:#fff;--panel:#fff;--fg:#000;--muted:#444;--line:#bbb;--link:#000;--blue:#0072b2;
--orange:#b87900;--red:#c24a00;--lightblue:#b8d4e8;--danger-bg:#fff;--danger:#9b1c10;--warning-bg:#fff;
--warning:#6b4700;--note-bg:#fff;--note:#0b4a73}
html{font-size:7.1pt}
body{max-width:none;padding:0;line-height:1.3}
nav,.skip,details,.screen,.hint:empty{display:none}
h1{font-size:1.9rem;margin:0 0 .3rem}
h2{font-size:1.2rem;margin:.7rem 0 .25rem;padding-top:.25rem;break-after:avoid}
h3{font-size:1rem;margin:.4rem 0 .15rem;break-after:avoid}
p,ul{margin:.25rem 0}
ul{padding-left:1.3rem}
.byline{margin:.1rem 0 .4rem}
.tiles div{padding:.15rem .6rem}
.notice{padding:0 .8rem;margin:.4rem 0}
.scroll{overflow:visible}
.label{margin:.4rem 0 .1rem}
.label:has(+.scroll){break-after:avoid}
table{font-size:.95rem;line-height:1.24;margin:0 0 .2rem;width:100%}
th,td,.numbers td,.numbers thead th+th{padding:.08rem .7rem .08rem 0}
tbody th{min-width:5rem}
td,.numbers td:last-child{min-width:0}
main>section .scroll:has(.narrow){columns:2;column-gap:7mm}
.narrow tbody th{max-width:none}
.interval{display:inline}
.interval::before{content:"("}
.interval::after{content:")"}
.many .interval{display:block}
.facts tbody th{width:11rem}
.gallery{grid-template-columns:repeat(3,1fr);gap:0 1rem}
.gallery:has(figure:nth-child(4):last-child){grid-template-columns:repeat(4,1fr)}
.words{columns:2;column-gap:7mm;line-height:1.22}
.words h2{margin:.45rem 0 .15rem;padding-top:.15rem}
.words p,.words ul{margin:.15rem 0}
.words .label,.words h3{margin:.25rem 0 .05rem}
.words table{font-size:.92rem;line-height:1.2}
.words .facts tbody th{width:10.5rem}
.words td{min-width:3rem}
.words .numbers td,.words .numbers .interval{white-space:normal}
.words .numbers{font-size:.82rem}
.words .numbers tbody th{min-width:8rem}
.words .numbers th,.words .numbers td{padding-right:.35rem}
#budget td:nth-child(2){white-space:nowrap}
#short .label{display:none}
figure{margin:.3rem 0 0}
figure h3{margin:.2rem 0}
figcaption{margin-top:0;line-height:1.2;font-size:.85rem}
svg{max-width:100%!important;max-height:33mm}
pre{padding:.2rem .5rem;font-size:.8rem;line-height:1.25;white-space:pre-wrap;overflow-wrap:anywhere}
#effects,#conclusions,#promise,#budget,#data,#cite,#check{break-inside:auto}
figure,tr,pre,.notice{break-inside:avoid}
a{text-decoration:none}
footer{margin-top:.3rem}
footer p{margin:0}
}
@media (prefers-reduced-motion:reduce){html{scroll-behavior:auto}}
"""
