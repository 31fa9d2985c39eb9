import { useCallback, useEffect, useRef, useState } from 'preact/hooks';

/** What a view shows, or why it cannot. A value stays while it is loaded again, and where that fails. */
export type Loaded<Value> = {
  value: Value | undefined;
  error: unknown;
  loading: boolean;
  reload: () => void;
};

/** Loads when the view appears, when `reload` is called, and when one of `wishes` changes; what comes too late is dropped. */
export function useLoaded<Value>(
  load: (signal: AbortSignal) => Promise<Value>,
  wishes: readonly unknown[],
): Loaded<Value> {
  const [state, setState] = useState<Omit<Loaded<Value>, 'reload'>>({
    value: undefined,
    error: undefined,
    loading: true,
  });
  const [times, setTimes] = useState(0);
  const present = useRef(load);
  present.current = load;
  const shownFor = useRef<readonly unknown[]>(wishes);

  useEffect(() => {
    const leaving = new AbortController();
    const { signal } = leaving;
    const isSame = wishes.every((wish, index) => Object.is(wish, shownFor.current[index]));
    shownFor.current = wishes;
    setState(({ value, error }) => (isSame ? { value, error, loading: true } : { ...nothing, loading: true }));
    present.current(signal).then(
      (value) => signal.aborted || setState({ value, error: undefined, loading: false }),
      (error: unknown) => signal.aborted || setState(({ value }) => ({ value, error, loading: false })),
    );
    return () => leaving.abort();
  }, [times, ...wishes]);

  const reload = useCallback(() => setTimes((before) => before + 1), []);
  return { ...state, reload };
}

const nothing = { value: undefined, error: undefined };

/** Calls back every so many milliseconds while `active`, unless the page is out of sight. */
export function useRepeated(run: () => void, { everyMs, active }: { everyMs: number; active: boolean }): void {
  const present = useRef(run);
  present.current = run;
  useEffect(() => {
    if (!active) return undefined;
    const timer = setInterval(() => document.visibilityState === 'visible' && present.current(), everyMs);
    return () => clearInterval(timer);
  }, [active, everyMs]);
}
