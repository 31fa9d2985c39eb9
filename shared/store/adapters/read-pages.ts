import { setImmediate as nextTurn } from 'node:timers/promises';

type Paged<Item, Place> = {
  /** Reads all items if omitted. */
  limit?: number;
  pageMax: number;
  after: Place;
  read(page: { after: Place; limit: number }): Promise<Item[]>;
  placeOf(item: Item): Place;
};

/** Reads data that is too long for one call page by page, and yields to the event loop between pages. */
export async function readPages<Item, Place>(paged: Paged<Item, Place>): Promise<Item[]> {
  const { limit = Number.POSITIVE_INFINITY, pageMax, read, placeOf } = paged;
  const items: Item[] = [];
  for (let { after } = paged; items.length < limit; ) {
    const wanted = Math.min(pageMax, limit - items.length);
    const page = await read({ after, limit: wanted });
    for (const item of page) items.push(item);
    const last = page.at(-1);
    if (last === undefined || page.length < wanted) break;
    after = placeOf(last);
    await nextTurn();
  }
  return items;
}
