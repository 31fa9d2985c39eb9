/** The pages, by the first part of the address's fragment. */
export const pages = {
  keys: 'Keys',
  usage: 'Usage',
  'try-it': 'Try it',
  batches: 'Batches',
  operators: 'Operators',
} as const;

export type PageName = keyof typeof pages;

/** Where somebody is: `#operators/user%3Aalice` is an account, `#operators?user%3Aal` what accounts were looked for by. */
export type Route = { page: PageName; account?: string; search?: string; section?: 'top-up' };

/** What says nothing that is known leads to the keys. */
export function parseRoute(hash: string): Route {
  const [, page = '', mark, rest = ''] = /^#?([^/?]*)([/?])?(.*)$/s.exec(hash) ?? [];
  if (page === 'top-up') return { page: 'usage', section: 'top-up' };
  if (page === 'operators' && rest !== '') return { page, [mark === '?' ? 'search' : 'account']: decode(rest) };
  return { page: Object.hasOwn(pages, page) ? (page as PageName) : 'keys' }; // it is one of theirs
}

export function accountLink(account: string): string {
  return `#operators/${encodeURIComponent(account)}`;
}

export function searchLink(prefix: string): string {
  return prefix === '' ? '#operators' : `#operators?${encodeURIComponent(prefix)}`;
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
