/** Titles of the pages, by the first part of the fragment of the address. */
export const pages = {
  keys: 'Keys',
  usage: 'Usage',
  'try-it': 'Try it',
  batches: 'Batches',
  webhooks: 'Webhooks',
  operators: 'Operators',
} as const;

export type PageName = keyof typeof pages;

/** Filter of the audit records; without both fields, all are shown. */
export type AuditFilter = { account?: string; actor?: string };

/** As the API names them. */
export type CodeState = 'unused' | 'redeemed' | 'revoked' | 'expired';

/**
 * The view that the address names: `#operators/user%3Aalice` is an account, `#operators?user%3Aal` a search for accounts,
 * `#audit?actor=user%3Aolga` a filtered audit trail, `#top-up-codes?unused` the top-up codes in a state, `#all-usage` the usage of all
 * accounts, `#settings` the settings.
 */
export type Route = {
  page: PageName;
  account?: string;
  search?: string;
  section?: 'top-up' | 'audit' | 'codes' | 'all-usage' | 'settings';
  filter?: AuditFilter;
  state?: CodeState;
};

/** An unknown fragment leads to the keys. */
export function parseRoute(hash: string): Route {
  const [, page = '', mark, rest = ''] = /^#?([^/?]*)([/?])?(.*)$/s.exec(hash) ?? [];
  if (page === 'top-up') return { page: 'usage', section: 'top-up' };
  if (page === 'all-usage') return { page: 'operators', section: 'all-usage' };
  if (page === 'top-up-codes') return { page: 'operators', section: 'codes', ...stateOf(rest) };
  if (page === 'audit') return { page: 'operators', section: 'audit', filter: parseFilter(rest) };
  if (page === 'settings') return { page: 'operators', section: 'settings' };
  if (page === 'operators' && rest !== '') return { page, [mark === '?' ? 'search' : 'account']: decode(rest) };
  return { page: Object.hasOwn(pages, page) ? (page as PageName) : 'keys' }; // `hasOwn` has checked it
}

export function titleOf({ page, account, section }: Route): string {
  if (section === 'all-usage') return 'Usage of all accounts';
  if (section === 'audit') return 'Audit trail';
  if (section === 'codes') return 'Top-up codes';
  if (section === 'settings') return 'Settings';
  return account ?? pages[page];
}

export function accountLink(account: string): string {
  return `#operators/${encodeURIComponent(account)}`;
}

export function searchLink(prefix: string): string {
  return prefix === '' ? '#operators' : `#operators?${encodeURIComponent(prefix)}`;
}

export function auditLink(filter: AuditFilter): string {
  const query = new URLSearchParams(filter).toString();
  return query === '' ? '#audit' : `#audit?${query}`;
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

function parseFilter(query: string): AuditFilter {
  const parameters = new URLSearchParams(query);
  const [account, actor] = [parameters.get('account'), parameters.get('actor')];
  return { ...(account && { account }), ...(actor && { actor }) };
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
