import { repeatWhile } from '../concurrency/repeat-while.ts';
import { readKeyFile, readKeyFileAtOnce } from '../plan-file/backend-files.ts';
import type { Backend } from '../plan-file/plan-file.ts';

const lookEveryMs = 1_000;

/**
 * Files that some backend has are read once a second, so that a new key is used without a restart. If that fails, the earlier key stays.
 */
export function followBackendKeys(deps: {
  variableOf: (name: string) => string | undefined;
  backends: () => Readonly<Record<string, Backend>>;
  /** Called once until the file can be read again. The error has nothing of the file. */
  onUnreadable: (file: string, error: unknown) => void;
}) {
  const { variableOf, backends, onUnreadable } = deps;
  const keys = new Map<string, { inUse: string | undefined; seen: string | undefined; isFailing: boolean }>();
  const files = () => new Set(Object.values(backends()).flatMap(({ apiKeyFile }) => apiKeyFile ?? []));
  const looking = repeatWhile({
    everyMs: lookEveryMs,
    work: look,
    isNeeded: () => files().size > 0,
    onFailure: () => {}, // each file reports its own
  });

  /** Reads the files again. A key counts once it was read twice: one that is half written does not. */
  async function look(): Promise<void> {
    const used = files();
    for (const file of keys.keys()) if (!used.has(file)) keys.delete(file);
    await Promise.all([...used].map(lookAt));
  }

  async function lookAt(file: string): Promise<void> {
    const known = keyOf(file);
    try {
      const read = await readKeyFile(file);
      if (read === known.seen) known.inUse = read;
      known.seen = read;
      known.isFailing = false;
    } catch (error) {
      if (!known.isFailing) onUnreadable(file, error);
      known.isFailing = true;
    }
  }

  /** The file was readable a moment ago, or the plan file would not be in force. */
  function keyOf(file: string) {
    const known = keys.get(file) ?? { inUse: undefined, seen: undefined, isFailing: false };
    if (!keys.has(file)) {
      keys.set(file, known);
      try {
        known.inUse = readKeyFileAtOnce(file);
      } catch {
        // The next look reports it.
      }
    }
    return known;
  }

  return {
    /** Undefined if the backend has none, or if its file could never be read. */
    of({ apiKeyEnv, apiKeyFile }: Pick<Backend, 'apiKeyEnv' | 'apiKeyFile'>): string | undefined {
      if (apiKeyEnv !== undefined) return variableOf(apiKeyEnv);
      if (apiKeyFile === undefined) return undefined;
      looking.begin();
      return keyOf(apiKeyFile).inUse;
    },
    /** Whether the variable with the key of this backend is not set. Then it must not be called: it would refuse the account. */
    lacks: ({ apiKeyEnv }: Pick<Backend, 'apiKeyEnv'>): boolean => apiKeyEnv !== undefined && !variableOf(apiKeyEnv),
    look,
    [Symbol.dispose]: looking[Symbol.dispose],
  };
}

/** The API keys of backends, from the environment or from files. */
export type BackendKeys = ReturnType<typeof followBackendKeys>;
