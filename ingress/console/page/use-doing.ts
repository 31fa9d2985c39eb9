import { useRef, useState } from 'preact/hooks';

/** An action of a button: whether it is running, and its last error. `run` does nothing while it is running. */
export type ActionState = { busy: boolean; error: unknown; run: (event?: Event) => void };

export function useDoing(what: () => Promise<void>): ActionState {
  const [state, setState] = useState<{ busy: boolean; error: unknown }>({ busy: false, error: undefined });
  const isRunning = useRef(false);

  async function run(): Promise<void> {
    if (isRunning.current) return;
    isRunning.current = true;
    setState({ busy: true, error: undefined });
    try {
      await what();
      setState({ busy: false, error: undefined });
    } catch (error) {
      setState({ busy: false, error });
    } finally {
      isRunning.current = false;
    }
  }

  return {
    ...state,
    run(event) {
      event?.preventDefault();
      void run();
    },
  };
}
