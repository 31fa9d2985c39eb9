/** So many keep the process for a few milliseconds; between them it does something else. */
export const rowsAtOnce = 100;

/** Where a page by id begins, and how it goes on; ids are of letters, digits, `-` and `_`. */
export const orders = {
  asc: { isAfter: '>', sorted: 'ASC', start: '' },
  desc: { isAfter: '<', sorted: 'DESC', start: '~' },
} as const;
