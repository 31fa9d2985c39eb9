import { useEffect, useRef, useState } from 'preact/hooks';
import { type Answer, type Call, streamAnswer } from './stream-answer.ts';

export type Run = { name: 'idle' | 'running' | 'stopped' | 'done' } | { name: 'failed'; error: unknown };

/** One request at a time, with its answer so far. It is stopped when the view is left. */
export function useRun() {
  const [run, setRun] = useState<Run>({ name: 'idle' });
  const [answer, setAnswer] = useState<Answer>();
  const current = useRef<AbortController>(undefined);
  useEffect(() => () => current.current?.abort(), []);

  async function start(call: Omit<Call, 'signal' | 'show'>): Promise<void> {
    if (run.name === 'running') return;
    const aborting = new AbortController();
    const { signal } = aborting;
    current.current = aborting;
    /** The view may show another request by now. */
    const isShown = () => current.current === aborting;
    setRun({ name: 'running' });
    setAnswer(undefined);
    try {
      await streamAnswer({ ...call, signal, show: (shown) => isShown() && !signal.aborted && setAnswer(shown) });
      if (isShown()) setRun({ name: 'done' });
    } catch (error) {
      if (isShown()) setRun(signal.aborted ? { name: 'stopped' } : { name: 'failed', error });
    }
  }

  return {
    run,
    answer,
    start,
    stop: () => current.current?.abort(),
    /** Stops, and shows nothing of the request. */
    clear(): void {
      current.current?.abort();
      current.current = undefined;
      setRun({ name: 'idle' });
      setAnswer(undefined);
    },
  };
}
