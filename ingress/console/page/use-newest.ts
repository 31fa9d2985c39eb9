import { useState } from 'preact/hooks';
import type { Api } from '../api/api.ts';
import { ApiFailure } from '../api/api-failure.ts';
import { type LoadState, useLoaded } from './use-loaded.ts';

type Page<Item> = { data: Item[]; has_more: boolean };

/** The first items of a list of the API, newest first; `showMore` loads more. */
export type NewestItems<Item> = LoadState<Page<Item>> & { showMore: () => void };

const usualPageSize = 20;
/** Maximum page size of the API. */
const callSizeMax = 100;

type Wishes = {
  filter?: Readonly<Record<string, string>>;
  pageSize?: number;
  /** A list that there is not is empty. */
  orEmpty?: boolean;
};

export function useNewest<Item extends { id: string }>(
  api: Api,
  path: string,
  { filter = {}, pageSize = usualPageSize, orEmpty = false }: Wishes = {},
): NewestItems<Item> {
  const [wanted, setWanted] = useState(pageSize);
  const query = new URLSearchParams(filter).toString();
  const loaded = useLoaded(
    (signal) =>
      readNewest<Item>(wanted, (page) =>
        api.call(`${path}?${new URLSearchParams({ ...filter, ...page })}`, { signal }),
      ).catch((error: unknown) => {
        if (orEmpty && error instanceof ApiFailure && error.status === 404) return { data: [], has_more: false };
        throw error;
      }),
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

/** Reads up to `wanted` items, in as many calls as needed. */
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
