import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { ConsoleSettings } from '../console/settings.ts';
import type { Stage } from '../request-state.ts';
import { createAssetSet } from './asset-set.ts';
import { collectBrowserModules } from './browser-modules.ts';
import { contentSecurityPolicy } from './content-security-policy.ts';
import { escapeHtml } from './escape-html.ts';
import { serveAsset, servePage } from './serve-content.ts';
import { createStaticContent } from './static-content.ts';

const directory = fileURLToPath(new URL('../console', import.meta.url));
const entry = 'main.js';
/** The first is the documentation's, too; each goes by what those before it have set. */
const styles = ['theme.css', 'page/page.css', 'page/controls.css', 'page/table.css', 'usage/usage.css'];

/** The stages of its routes: the page, and what it loads. */
export type Console = { page: Stage; asset: Stage };

/**
 * The console: one page, and what it loads. Made when the process starts; no step builds it. Its script may reach the API and
 * the issuer.
 */
export function createConsole(known: ConsoleSettings): Console {
  const { baseUrl, audience, consoleUrl, docsUrl, issuer, consoleClientId } = known;
  const settings: ConsoleSettings = { baseUrl, audience, consoleUrl, docsUrl, issuer, consoleClientId }; // and no more
  const modules = collectBrowserModules({ directory, entry: 'main.ts' });
  const files = new Map(modules);
  for (const name of ['theme.css', 'icon.svg']) files.set(name, readFileSync(new URL(name, import.meta.url), 'utf8'));
  for (const name of styles.slice(1)) files.set(name, readFileSync(`${directory}/${name}`, 'utf8'));
  const { assets, nameOf } = createAssetSet(files);

  const path = new URL(settings.consoleUrl).pathname.replace(/\/$/, '');
  const address = (name: string) => `${path}/assets/${nameOf(name)}`;
  const html = pageOf({ settings, modules: [...modules.keys()].map(address), styles: styles.map(address) });
  const policy = contentSecurityPolicy([new URL(settings.issuer).origin, new URL(settings.baseUrl).origin]);
  return { page: servePage(createStaticContent(html, 'text/html; charset=utf-8'), policy), asset: serveAsset(assets) };

  function pageOf(parts: { settings: ConsoleSettings; modules: string[]; styles: string[] }): string {
    return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="console-settings" content="${escapeHtml(JSON.stringify(parts.settings))}">
<title>Console</title>
<link rel="icon" href="${escapeHtml(address('icon.svg'))}" type="image/svg+xml">
${parts.styles.map((href) => `<link rel="stylesheet" href="${escapeHtml(href)}">`).join('\n')}
${parts.modules.map((href) => `<link rel="modulepreload" href="${escapeHtml(href)}">`).join('\n')}
<script type="module" src="${escapeHtml(address(entry))}"></script>
</head>
<body>
<div id="app"><main><h1>Console</h1><p>Loading … If this stays, reload the page, in a browser of these years with scripts allowed.</p></main></div>
</body>
</html>
`;
  }
}
