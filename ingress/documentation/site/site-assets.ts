import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { createAssetSet } from '../../pages/asset-set.ts';
import { collectBrowserModules } from '../../pages/browser-modules.ts';
import type { StaticContent } from '../../pages/static-content.ts';
import type { Frame } from './page-layout.ts';

/** The assets by their names with a hash, and their addresses below the path of the documentation. */
export type SiteAssets = { assets: ReadonlyMap<string, StaticContent>; addresses: Frame['assets'] };

const browser = fileURLToPath(new URL('../browser', import.meta.url));
/** The theme comes first, so that the documentation's own rules override it. */
const styles = new Map([
  ['theme.css', '../../pages/theme.css'],
  ['layout.css', '../styles/layout.css'],
  ['text.css', '../styles/text.css'],
  ['code.css', '../styles/code.css'],
  ['reference.css', '../styles/reference.css'],
  ['search.css', '../styles/search.css'],
]);
const icon = 'icon.svg';
const index = 'search-index.json';

export function makeSiteAssets({ home, searchIndex }: { home: string; searchIndex: string }): SiteAssets {
  const modules = collectBrowserModules({ directory: browser, entry: 'main.ts' });
  const files = new Map([
    ...[...styles].map(([name, path]) => [name, read(path)] as const),
    ...modules,
    [icon, read('../../pages/icon.svg')],
    [index, searchIndex],
  ]);
  const { assets, nameOf } = createAssetSet(files);
  const address = (name: string) => `${home}/assets/${nameOf(name)}`;
  return {
    assets,
    addresses: {
      styles: [...styles.keys()].map(address),
      modules: [...modules.keys()].map(address),
      icon: address(icon),
      index: address(index),
    },
  };
}

function read(path: string): string {
  return readFileSync(new URL(path, import.meta.url), 'utf8');
}
