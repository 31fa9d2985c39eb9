/** The pages, by the first part of the address's fragment. */
export const pages = {
  keys: 'Keys',
  usage: 'Usage',
  'try-it': 'Try it',
  batches: 'Batches',
  operators: 'Operators',
} as const;

export type PageName = keyof typeof pages;

/** Where somebody is: `#operators/user%3Aalice`; `account` is whose, on the page of operators. */
export type Route = { page: PageName; account?: string; section?: 'top-up' };

/** What says nothing that is known leads to the keys. */
export function parseRoute(hash: string): Route {
  const [page = '', rest] = hash.replace(/^#/, '').split('/');
  if (page === 'top-up') return { page: 'usage', section: 'top-up' };
  if (page === 'operators' && rest) return { page, account: decode(rest) };
  return { page: Object.hasOwn(pages, page) ? (page as PageName) : 'keys' }; // it is one of theirs
}

export function accountLink(account: string): string {
  return `#operators/${encodeURIComponent(account)}`;
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
