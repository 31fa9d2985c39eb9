import { batchLink, findLink, pages, requestLink } from '../page/route.ts';
import { searchText } from '../page/search-text.ts';
import type { IconName } from './icons.ts';
import { navigationItems } from './navigation.ts';

/** Something that the palette can go to. */
export type PaletteEntry = { title: string; hint?: string; icon: IconName; href: string };

/** Other words under which people look for a page. */
const otherWords: Readonly<Record<string, string>> = {
  overview: 'home start limits',
  requests: 'log history errors',
  batches: 'jobs files upload',
  usage: 'quota billing cost tokens top up overage plan',
  keys: 'api key secret guest device',
  webhooks: 'events',
  'try-it': 'playground chat test',
  find: 'search support',
  fleet: 'workers ingresses pools backends queue breaker health',
  accounts: 'users suspend plan',
  'all-usage': 'billing cost',
  audit: 'changes history',
  'top-up-codes': 'payment',
  settings: 'plan file models processes',
};

/** What fits the typed text: pages, and whatever has this id. Pages whose title begins with the text come first. */
export function paletteEntries(typed: string, { isOperator, docsUrl }: { isOperator: boolean; docsUrl: string }) {
  const text = typed.trim();
  const words = text.toLowerCase();
  const found = navigationItems({ isOperator })
    .filter(({ page, title }) => `${title} ${otherWords[page] ?? ''}`.toLowerCase().includes(words))
    .toSorted((one, other) => rankOf(one.title, words) - rankOf(other.title, words))
    .map(({ page, title, icon }): PaletteEntry => ({ title, icon, href: `#${page}` }));
  const docs: PaletteEntry = { title: 'Documentation', icon: 'book', href: docsUrl };
  const isDocs = docs.title.toLowerCase().includes(words) || 'help'.includes(words);
  return [...namedBy(text), ...found, ...(isDocs ? [docs] : []), ...searchFor(text, isOperator)];
}

function rankOf(title: string, words: string): number {
  const place = title.toLowerCase().indexOf(words);
  return place === -1 ? Number.MAX_SAFE_INTEGER : place;
}

function searchFor(text: string, isOperator: boolean): PaletteEntry[] {
  const wanted = searchText(text);
  if (!isOperator || wanted === '') return [];
  return [{ title: `${pages.find} "${wanted}"`, hint: 'in all accounts', icon: 'search', href: findLink(wanted) }];
}

/** A request or a batch of the own account, by its id. */
function namedBy(text: string): PaletteEntry[] {
  if (/^batch_\w+$/.test(text)) return [{ title: text, hint: 'batch', icon: 'batches', href: batchLink(text) }];
  if (/^(req|chatcmpl|resp|msg|cmpl)[_-][\w-]+$/.test(text))
    return [{ title: text, hint: 'request', icon: 'requests', href: requestLink(text) }];
  return [];
}
