import type { FoundThing } from '../routes/find.ts';
import {
  type AccountAction,
  accountLink,
  batchLink,
  findLink,
  foundLink,
  navigationItems,
  type PageName,
  pages,
  requestLink,
  searchText,
} from './page/console-route.ts';
import type { IconName } from './page/icons.ts';

/** What an entry does, unless it leads to an address. An action of an account asks for the account next. */
type PaletteAction = { does: 'sign out' | 'copy the account' | 'show shortcuts' } | { asks: AccountAction };

export type PaletteEntry = { title: string; hint?: string; icon: IconName } & ({ href: string } | PaletteAction);

type Context = {
  isOperator: boolean;
  docsUrl: string;
  /** What the service has found in all accounts for the text. */
  found?: readonly FoundThing[];
  /** What is to be done with the account that is searched for. */
  asking?: AccountAction | undefined;
};

/** Other words under which people look for a page. */
const otherWords: Readonly<Record<PageName, string>> = {
  service: 'home incidents status errors health queue',
  fleet: 'workers ingresses pools backends',
  find: 'search support',
  accounts: 'users suspend plan',
  'all-usage': 'billing cost',
  audit: 'changes history',
  'top-up-codes': 'payment',
  settings: 'settings models backends plans processes',
  overview: 'home start limits',
  requests: 'log history errors',
  batches: 'jobs files upload',
  usage: 'quota billing cost tokens top up overage plan',
  keys: 'api key secret guest device',
  webhooks: 'events',
  'try-it': 'playground chat test',
};

const ownActions: readonly PaletteEntry[] = [
  { title: 'Create a key', icon: 'keys', href: '#keys?new' },
  { title: 'New batch', icon: 'batches', href: '#batches' },
  { title: 'Export usage', icon: 'usage', href: '#usage' },
  { title: 'Copy my account name', icon: 'copy', does: 'copy the account' },
  { title: 'Keyboard shortcuts', hint: '?', icon: 'book', does: 'show shortcuts' },
  { title: 'Sign out', icon: 'leave', does: 'sign out' },
];

export const accountQuestions: Readonly<Record<AccountAction, string>> = {
  plan: 'Change the plan of …',
  'top-up': 'Top up …',
  suspension: 'Suspend …',
};

const operatorActions: readonly PaletteEntry[] = [
  { title: accountQuestions.plan, icon: 'accounts', asks: 'plan' },
  { title: accountQuestions['top-up'], icon: 'codes', asks: 'top-up' },
  { title: accountQuestions.suspension, icon: 'accounts', asks: 'suspension' },
  { title: 'Pause a backend …', icon: 'fleet', href: '#fleet' },
];

/** What fits the typed text: ids, pages, actions, and what was found. Entries whose title begins with the text come first. */
export function paletteEntries(typed: string, context: Context): PaletteEntry[] {
  const { isOperator, docsUrl, found = [], asking } = context;
  const text = typed.trim();
  if (asking !== undefined) return accountsFor(asking, found);
  const items = navigationItems({ isOperator });
  const documentation: PaletteEntry = { title: 'Documentation', icon: 'book', href: docsUrl };
  const known = [
    ...items.map(({ page, title, icon }) => ({ entry: { title, icon, href: `#${page}` }, others: otherWords[page] })),
    { entry: documentation, others: 'help' },
    ...[...ownActions, ...(isOperator ? operatorActions : [])].map((entry) => ({ entry, others: '' })),
  ];
  const words = text.toLowerCase().split(/\s+/);
  const fitting = known
    .filter(({ entry, others }) => words.every((word) => `${entry.title} ${others}`.toLowerCase().includes(word)))
    .map(({ entry }): PaletteEntry => entry);
  return [
    ...namedBy(text, isOperator),
    ...(text === '' ? fitting : fitting.toSorted((one, other) => rankOf(one, words) - rankOf(other, words))),
    ...found.flatMap(foundEntry),
    ...searchFor(text, isOperator),
  ];
}

function rankOf({ title }: PaletteEntry, [word = '']: readonly string[]): number {
  const place = title.toLowerCase().indexOf(word);
  return place === -1 ? Number.MAX_SAFE_INTEGER : place;
}

function accountsFor(action: AccountAction, found: readonly FoundThing[]): PaletteEntry[] {
  const accounts = new Map(found.map(({ account, name }) => [account, name]));
  return [...accounts].map(([account, name]) => ({
    ...{ title: account, icon: 'accounts' as const, href: accountLink(account, action) },
    ...(name !== undefined && { hint: name }),
  }));
}

/** Requests and batches have an entry by their id. */
function foundEntry({ kind, id, account, name }: FoundThing): PaletteEntry[] {
  if (kind === 'request' || kind === 'batch') return [];
  const hint = kind === 'account' ? (name ?? 'account') : `${kind} of ${name ?? account}`;
  return [{ title: id, hint, icon: kind === 'account' ? 'accounts' : 'search', href: accountLink(account) }];
}

function searchFor(text: string, isOperator: boolean): PaletteEntry[] {
  const wanted = searchText(text);
  if (!isOperator || wanted === '') return [];
  return [{ title: `${pages.find} "${wanted}"`, hint: 'in all accounts', icon: 'search', href: findLink(wanted) }];
}

/** A request or a batch by its id: of operators in all accounts first. */
function namedBy(text: string, isOperator: boolean): PaletteEntry[] {
  const kind = /^batch_\w+$/.test(text)
    ? 'batch'
    : /^(req|chatcmpl|resp|msg|cmpl)[_-][\w-]+$/.test(text)
      ? 'request'
      : undefined;
  if (kind === undefined) return [];
  const [icon, href] =
    kind === 'batch' ? (['batches', batchLink(text)] as const) : (['requests', requestLink(text)] as const);
  // Of other accounts, requests are found by their own ids only.
  if (!isOperator || !/^(req|batch)_/.test(text)) return [{ title: text, hint: kind, icon, href }];
  return [
    { title: text, hint: `${kind} of any account`, icon, href: foundLink(text) },
    { title: text, hint: `${kind} of mine`, icon, href },
  ];
}
