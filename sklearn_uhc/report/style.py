"""How the page looks: in a browser, on a phone, in a notebook of any color, on paper."""

CSS = """
.uhc-report { box-sizing: border-box; max-width: 72rem; margin: 0 auto; padding: 1.5rem; color: #1a1a1a;
  background: #fff; font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif; }
.uhc-report h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .8rem; color: inherit; }
.uhc-report h2 { font-size: 1.25rem; margin: 2.2rem 0 .6rem; padding-top: .6rem; border-top: 1px solid #ccc;
  color: inherit; }
.uhc-report h3 { font-size: 1rem; margin: 1.2rem 0 .4rem; color: inherit; }
.uhc-report p, .uhc-report dl, .uhc-report .warnings { max-width: 50rem; overflow-wrap: anywhere; }
.uhc-report p { margin: .6rem 0; }
.uhc-report .warnings { border: 1px solid #b35900; border-left-width: .5rem; background: #fff6e9;
  padding: .7rem 1rem; margin: 1rem 0; }
.uhc-report .warnings ul { margin: .4rem 0 0; padding-left: 1.2rem; }
.uhc-report .warnings li { margin: .3rem 0; }
.uhc-report .fine { border-left: .5rem solid #3a7d44; background: #eef7ef; padding: .5rem 1rem; }
.uhc-report .box { overflow-x: auto; margin: .6rem 0; }
.uhc-report table { border-collapse: collapse; font-size: .9rem; margin: 0; color: inherit; background: #fff; }
.uhc-report th, .uhc-report td { padding: .35rem .7rem; text-align: left; vertical-align: top; max-width: 20rem;
  overflow-wrap: anywhere; background: inherit; border: 0; border-bottom: 1px solid #ddd; }
.uhc-report .short { white-space: nowrap; }
.uhc-report td.long { min-width: 15rem; }
.uhc-report th { border-bottom: 2px solid #1a1a1a; white-space: nowrap; }
.uhc-report .number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
.uhc-report tr.marked { background: #fff6e9; font-weight: 600; }
.uhc-report tr.marked td:first-child { box-shadow: inset .3rem 0 #b35900; }
.uhc-report img { display: block; max-width: 100%; height: auto; }
.uhc-report details { margin: 0; }
.uhc-report summary { cursor: pointer; }
.uhc-report dt { font-weight: 600; }
.uhc-report dd { margin: 0 0 .4rem 1.2rem; }
@media (max-width: 40rem) { .uhc-report { padding: 1rem; } }
@media print {
  .uhc-report { max-width: none; padding: 0; font-size: 10pt; print-color-adjust: exact; }
  .uhc-report .box { overflow: visible; }
  .uhc-report table { font-size: 8pt; }
  .uhc-report th, .uhc-report td { padding: .2rem .35rem; }
  .uhc-report th, .uhc-report .short { white-space: normal; }
  .uhc-report td.long { min-width: 0; }
  .uhc-report img { min-width: 0 !important; }
  .uhc-report tr, .uhc-report img, .uhc-report .warnings { break-inside: avoid; }
  .uhc-report h2, .uhc-report h3 { break-after: avoid; }
}
"""
