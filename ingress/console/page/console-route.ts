import type { IconName } from './icons.ts';

/** Titles of the pages, by the first part of the fragment of the address. */
export const pages = {
  service: 'Service',
  fleet: 'Fleet',
  find: 'Find',
  accounts: 'Accounts',
  'all-usage': 'Usage of all accounts',
  audit: 'Audit trail',
  'top-up-codes': 'Top-up codes',
  settings: 'Plan file',
  overview: 'Overview',
  requests: 'Requests',
  batches: 'Batches',
  usage: 'Usage',
  keys: 'Keys',
  webhooks: 'Webhooks',
  'try-it': 'Try it',
} as const;

export type PageName = keyof typeof pages;

const operatorPages: readonly PageName[] = [
  ...(['service', 'fleet', 'find', 'accounts', 'all-usage', 'audit', 'top-up-codes', 'settings'] as const),
];

/** Whether only operators may see a page. */
export function isForOperators(page: PageName): boolean {
  return operatorPages.includes(page);
}

/** Filter of the audit records; without a field, all are shown. `start` and `end` are days, UTC, both included. */
export type AuditFilter = { account?: string; actor?: string; kind?: string; start?: string; end?: string };

/** What is asked of an account when its page opens. */
const accountActions = ['plan', 'top-up', 'suspension'] as const;
export type AccountAction = (typeof accountActions)[number];

/** As the API names them. */
export type CodeState = 'unused' | 'redeemed' | 'revoked' | 'expired';

/** As the API names them; `range` is one that ends now, `account` another account, for operators. */
const requestFilters = [
  'account',
  'range',
  'start',
  'end',
  'code',
  'outcome',
  'endpoint',
  'key_id',
  'model',
  'batch_id',
  'slower_than_ms',
] as const;

/** Filter of the requests; without a field, all are shown. */
export type RequestFilter = Partial<Record<(typeof requestFilters)[number], string>>;

/** What a report of usage is asked for, as the page has it in its address: groups are separated by commas. */
const usageFilters = ['period', 'start', 'end', 'by'] as const;
export type UsageFilter = Partial<Record<(typeof usageFilters)[number], string>>;

/**
 * The view that the address names: `#requests/req_1` is a request, `#batches/batch_1` a batch, `#accounts/user%3Aalice` an account,
 * `#accounts?user%3Aal` a search for accounts, `#find?req_1` a search for anything, `#find/req_1` a request of any account,
 * `#find/batch_1` a batch, `#requests?outcome=failed` filtered requests, `#audit?actor=user%3Aolga` a filtered audit trail,
 * `#top-up-codes?unused` the top-up codes in a state, `#usage?period=yesterday&by=key` the usage of some days, `#top-up` a part of it,
 * `#keys?new` the keys with the dialog for a new one, `#accounts/user%3Aalice?plan` an account and a question.
 */
export type Route = {
  page: PageName;
  /** The id of what the page shows one of. */
  item?: string;
  search?: string;
  isTopUp?: boolean;
  /** No page is named: the home of the user. */
  isHome?: boolean;
  action?: AccountAction;
  isNewKey?: boolean;
  filter?: AuditFilter & RequestFilter & UsageFilter;
  state?: CodeState;
};

/** An unknown fragment leads to the overview. */
export function parseRoute(hash: string): Route {
  const [, name = '', mark, rest = ''] = /^#?([^/?]*)([/?])?(.*)$/s.exec(hash) ?? [];
  if (name === 'top-up') return { page: 'usage', isTopUp: true };
  if (name === '' && rest === '') return { page: 'overview', isHome: true };
  const page = pageNamed(name);
  if (rest === '') return { page };
  if (mark === '/') return hasItems(page) ? itemOf(page, rest) : { page };
  if (page === 'accounts' || page === 'find') return { page, search: decode(rest) };
  if (page === 'top-up-codes') return { page, ...stateOf(rest) };
  if (page === 'keys' && rest === 'new') return { page, isNewKey: true };
  if (page === 'audit') return { page, filter: parseFilter(rest, ['account', 'actor', 'kind', 'start', 'end']) };
  if (page === 'requests') return { page, filter: parseFilter(rest, requestFilters) };
  if (page === 'usage' || page === 'all-usage') return { page, filter: parseFilter(rest, usageFilters) };
  return { page };
}

function pageNamed(name: string): PageName {
  return Object.hasOwn(pages, name) ? (name as PageName) : 'overview'; // `hasOwn` has checked it
}

/** Names in links are encoded, so a question mark in one ends it. */
function itemOf(page: PageName, rest: string): Route {
  const [, name = '', asked] = page === 'accounts' ? (/^(.*?)(?:\?(.*))?$/s.exec(rest) ?? []) : [rest, rest];
  const action = accountActions.find((one) => one === asked);
  return { page, item: decode(name), ...(action !== undefined && { action }) };
}

function hasItems(page: PageName): boolean {
  return page === 'accounts' || page === 'batches' || page === 'requests' || page === 'find';
}

export function titleOf({ page, item }: Route): string {
  return item ?? pages[page];
}

export function accountLink(account: string, action?: AccountAction): string {
  return `#accounts/${encodeURIComponent(account)}${action === undefined ? '' : `?${action}`}`;
}

export function requestLink(id: string): string {
  return `#requests/${encodeURIComponent(id)}`;
}

export function batchLink(id: string): string {
  return `#batches/${encodeURIComponent(id)}`;
}

export function searchLink(prefix: string): string {
  return prefix === '' ? '#accounts' : `#accounts?${encodeURIComponent(prefix)}`;
}

/** A search for anything, of all accounts. */
export function findLink(text: string): string {
  return `#find?${encodeURIComponent(text)}`;
}

/** A request or batch of any account, for operators. */
export function foundLink(id: string): string {
  return `#find/${encodeURIComponent(id)}`;
}

export function auditLink(filter: AuditFilter): string {
  return withQuery('#audit', filter);
}

export function requestsLink(filter: RequestFilter): string {
  return withQuery('#requests', filter);
}

export function usageLink(filter: UsageFilter, page: 'usage' | 'all-usage' = 'usage'): string {
  return withQuery(`#${page}`, filter);
}

export function codesLink(state: CodeState | undefined): string {
  return state === undefined ? '#top-up-codes' : `#top-up-codes?${state}`;
}

export const codeStates: readonly CodeState[] = ['unused', 'redeemed', 'revoked', 'expired'];

/** Another text shows all codes. */
function stateOf(text: string): Pick<Route, 'state'> {
  const state = codeStates.find((one) => one === text);
  return state === undefined ? {} : { state };
}

function withQuery(fragment: string, filter: Readonly<Record<string, string>>): string {
  const query = new URLSearchParams(filter).toString();
  return query === '' ? fragment : `${fragment}?${query}`;
}

function parseFilter<Name extends string>(query: string, names: readonly Name[]): Partial<Record<Name, string>> {
  const parameters = new URLSearchParams(query);
  const found: Partial<Record<Name, string>> = {};
  for (const name of names) {
    const value = parameters.get(name);
    if (value) found[name] = value;
  }
  return found;
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** A page in the navigation. */
export type NavigationItem = { page: PageName; title: string; icon: IconName };

const icons: Readonly<Record<PageName, IconName>> = {
  service: 'service',
  overview: 'overview',
  requests: 'requests',
  batches: 'batches',
  usage: 'usage',
  keys: 'keys',
  webhooks: 'webhooks',
  'try-it': 'try-it',
  fleet: 'fleet',
  find: 'search',
  accounts: 'accounts',
  'all-usage': 'usage',
  audit: 'audit',
  'top-up-codes': 'codes',
  settings: 'settings',
};

/** Below the heading of the operators' own pages, or without another one, these are short. */
export const shortTitles: Partial<Record<PageName, string>> = { 'all-usage': 'Usage' };

/** The pages that the navigation shows to a user, in order: first those of operators. */
export function navigationItems({ isOperator }: { isOperator: boolean }): NavigationItem[] {
  return (Object.keys(pages) as PageName[])
    .filter((page) => isOperator || !isForOperators(page))
    .map((page) => ({ page, title: pages[page], icon: icons[page] }));
}

/** `svc_` and the characters that are shown of a key. */
const shownKey = /^svc_[0-9A-Za-z]{0,6}/;

/** What is searched for: of a key only what is shown of it, so that no full key is in an address or leaves the page. */
export function searchText(typed: string): string {
  const text = typed.trim();
  return shownKey.exec(text)?.[0] ?? text;
}
