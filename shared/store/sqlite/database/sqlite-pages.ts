/** This many rows block the process for a few milliseconds; between pages it yields to the event loop. */
export const rowsAtOnce = 100;
/** Characters of bodies per transaction; more would block the process for too long. A single body can exceed this. */
export const charactersAtOnce = 1_048_576;

/** The start and the direction of a page by id. Ids consist of letters, digits, `-` and `_`. */
export const orders = {
  asc: { isAfter: '>', sorted: 'ASC', start: '' },
  desc: { isAfter: '<', sorted: 'DESC', start: '~' },
} as const;
