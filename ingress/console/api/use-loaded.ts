import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import type { Api } from './api.ts';
import { ApiFailure } from './api-failure.ts';

/** The value of a view, or the error of loading it. The value stays during a reload, and if the reload fails. */
export type LoadState<Value> = {
  value: Value | undefined;
  error: unknown;
  loading: boolean;
  reload: () => void;
};

/** Loads when the view appears, when `reload` is called, and when one of `inputs` changes; outdated results are dropped. */
export function useLoaded<Value>(
  load: (signal: AbortSignal) => Promise<Value>,
  inputs: readonly unknown[],
): LoadState<Value> {
  const [state, setState] = useState<Omit<LoadState<Value>, 'reload'>>({
    value: undefined,
    error: undefined,
    loading: true,
  });
  const [times, setTimes] = useState(0);
  const present = useRef(load);
  present.current = load;
  const shownFor = useRef<readonly unknown[]>(inputs);

  useEffect(() => {
    const leaving = new AbortController();
    const { signal } = leaving;
    const isSame = inputs.every((input, index) => Object.is(input, shownFor.current[index]));
    shownFor.current = inputs;
    setState(({ value, error }) => (isSame ? { value, error, loading: true } : { ...nothing, loading: true }));
    present.current(signal).then(
      (value) => signal.aborted || setState({ value, error: undefined, loading: false }),
      (error: unknown) => signal.aborted || setState(({ value }) => ({ value, error, loading: false })),
    );
    return () => leaving.abort();
  }, [times, ...inputs]);

  const reload = useCallback(() => setTimes((before) => before + 1), []);
  return { ...state, reload };
}

const nothing = { value: undefined, error: undefined };

/** After a failure, so that a service in trouble is not asked as often. */
const afterFailureMs = 10_000;

const usualMs = 5_000;

type PollOptions = { everyMs?: number; active?: boolean };

/**
 * Reloads while `active`, `everyMs` milliseconds (5 s) after the last load has ended: a load that takes longer is never aborted by the
 * next. A failure only makes it slower.
 */
export function usePolled(
  { loading, error, reload }: Pick<LoadState<unknown>, 'loading' | 'error' | 'reload'>,
  { everyMs = usualMs, active = true }: PollOptions = {},
): void {
  useRepeated(reload, { everyMs: error === undefined ? everyMs : afterFailureMs, active: active && !loading });
}

/** Calls `run` every `everyMs` milliseconds while `active`, unless the page is hidden. */
export function useRepeated(run: () => void, { everyMs, active }: { everyMs: number; active: boolean }): void {
  const present = useRef(run);
  present.current = run;
  useEffect(() => {
    if (!active) return undefined;
    const timer = setInterval(() => document.visibilityState === 'visible' && present.current(), everyMs);
    return () => clearInterval(timer);
  }, [active, everyMs]);
}

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
