import { useRef, useState } from 'preact/hooks';
import { type Answer, type Call, streamAnswer } from './stream-answer.ts';

export type Run = { name: 'idle' | 'running' | 'stopped' | 'done' } | { name: 'failed'; error: unknown };

/** One request at a time, with its answer so far. It continues while another page is shown. */
export function useRun() {
  const [state, setState] = useState<Run>({ name: 'idle' });
  const [answer, setAnswer] = useState<Answer>();
  const current = useRef<AbortController>(undefined);

  async function start(call: Omit<Call, 'signal' | 'show'>): Promise<void> {
    if (state.name === 'running') return;
    const aborting = new AbortController();
    const { signal } = aborting;
    current.current = aborting;
    /** The view may show another request by now. */
    const isShown = () => current.current === aborting;
    setState({ name: 'running' });
    setAnswer(undefined);
    try {
      await streamAnswer({ ...call, signal, show: (shown) => isShown() && !signal.aborted && setAnswer(shown) });
      if (isShown()) setState({ name: 'done' });
    } catch (error) {
      if (isShown()) setState(signal.aborted ? { name: 'stopped' } : { name: 'failed', error });
    }
  }

  return {
    state,
    answer,
    start,
    stop: () => current.current?.abort(),
    /** Stops, and shows nothing of the request. */
    clear(): void {
      current.current?.abort();
      current.current = undefined;
      setState({ name: 'idle' });
      setAnswer(undefined);
    },
  };
}
