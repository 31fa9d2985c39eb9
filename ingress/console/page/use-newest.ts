import { useState } from 'preact/hooks';
import type { Api } from '../api/api.ts';
import { type Loaded, useLoaded } from './use-loaded.ts';

type Page<Item> = { data: Item[]; has_more: boolean };

/** A list of the API, newest first: its first items, and more of them after each `showMore`. */
export type Newest<Item> = Loaded<Page<Item>> & { showMore: () => void };

const pageSize = 20;
/** The most that the API gives at once. */
const callSizeMax = 100;

export function useNewest<Item extends { id: string }>(
  api: Api,
  path: string,
  filter: Readonly<Record<string, string>> = {},
): Newest<Item> {
  const [wanted, setWanted] = useState(pageSize);
  const query = new URLSearchParams(filter).toString();
  const loaded = useLoaded(
    (signal) =>
      readNewest<Item>(wanted, (page) =>
        api.call(`${path}?${new URLSearchParams({ ...filter, ...page })}`, { signal }),
      ),
    [path, query],
  );
  return {
    ...loaded,
    showMore() {
      setWanted(wanted + pageSize);
      loaded.reload();
    },
  };
}

/** So many items, in as many calls as that takes. */
async function readNewest<Item extends { id: string }>(
  wanted: number,
  read: (page: Record<string, string>) => Promise<Page<Item>>,
): Promise<Page<Item>> {
  const data: Item[] = [];
  for (;;) {
    const last = data.at(-1);
    const limit = String(Math.min(callSizeMax, wanted - data.length));
    const page = await read({ limit, ...(last !== undefined && { after: last.id }) });
    data.push(...page.data);
    if (!page.has_more || data.length >= wanted) return { data, has_more: page.has_more };
  }
}
