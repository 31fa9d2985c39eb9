import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { ConsoleSettings } from '../console/session/browser.ts';
import { escapeHtml } from '../documentation/code-block.ts';
import { collectBrowserModules } from './browser-modules.ts';
import { createAssetSet, createStaticContent, type StaticContent } from './static-content.ts';

/** The page of the console, and its assets by their names with a hash. */
export type ConsoleFiles = { page: StaticContent; assets: ReadonlyMap<string, StaticContent> };

const directory = fileURLToPath(new URL('../console', import.meta.url));
const chartStyle = import.meta.resolve('uplot/dist/uPlot.min.css');
const entry = 'main.js';
/** In this order: each builds on the ones before it. The documentation uses the first, too. */
const styles = [
  'theme.css',
  'styles/page.css',
  'styles/frame.css',
  'styles/panels.css',
  'styles/controls.css',
  'styles/table.css',
  'styles/requests.css',
  'styles/usage.css',
  'styles/charts.css',
  'styles/service.css',
  'styles/try-it.css',
  'packages/uplot.css',
];

/** Takes about 0.3 s of CPU time. */
export function makeConsoleFiles(settings: ConsoleSettings): ConsoleFiles {
  const modules = collectBrowserModules({ directory, entry: 'main.ts' });
  const files = new Map(modules);
  for (const name of ['theme.css', 'icon.svg'])
    files.set(name, readFileSync(new URL(`./${name}`, import.meta.url), 'utf8'));
  files.set('packages/uplot.css', readFileSync(fileURLToPath(chartStyle), 'utf8'));
  for (const name of styles.filter((style) => !files.has(style)))
    files.set(name, readFileSync(`${directory}/${name}`, 'utf8'));
  const { assets, nameOf } = createAssetSet(files);

  const path = new URL(settings.consoleUrl).pathname.replace(/\/$/, '');
  const address = (name: string) => `${path}/assets/${nameOf(name)}`;
  const html = pageOf({ settings, address, modules: [...modules.keys()] });
  return { page: createStaticContent(html, 'text/html; charset=utf-8'), assets };
}

type PageParts = { settings: ConsoleSettings; address: (name: string) => string; modules: string[] };

function pageOf({ settings, address, modules }: PageParts): string {
  const href = (file: string) => escapeHtml(address(file));
  const name = escapeHtml(settings.product.name);
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="console-settings" content="${escapeHtml(JSON.stringify(settings))}">
<title>${name}</title>
<link rel="icon" href="${href('icon.svg')}" type="image/svg+xml">
${styles.map((file) => `<link rel="stylesheet" href="${href(file)}">`).join('\n')}
${modules.map((file) => `<link rel="modulepreload" href="${href(file)}">`).join('\n')}
<script type="module" src="${href(entry)}"></script>
</head>
<body>
<div id="app"><main><h1>${name} console</h1><p>Loading … If this message stays, reload the page in a current browser with JavaScript enabled.</p></main></div>
</body>
</html>
`;
}
