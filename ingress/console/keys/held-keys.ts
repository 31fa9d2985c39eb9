import { useState } from 'preact/hooks';
import type { CreatedKey, Key, SuccessorKey } from '../../routes/present-key.ts';
import type { Api } from '../api/api.ts';

/** A key in full, as the API has shown it once, with what it may use (null: all). */
export type FullKey = Pick<CreatedKey, 'name' | 'key' | 'endpoints' | 'models'>;

/** Keys in full, in the memory of this page only. */
export function useHeldKeys() {
  const [fresh, setFresh] = useState<readonly FullKey[]>([]);
  return {
    /** Those that are not dismissed yet, newest first. They are shown again after a visit to another page. */
    fresh,
    add: (key: FullKey): void => setFresh((before) => [key, ...before]),
    dismiss: (value: string): void => setFresh((before) => before.filter(({ key }) => key !== value)),
    /** Forgets all of them. */
    clear: (): void => setFresh([]),
  };
}

export type HeldKeys = ReturnType<typeof useHeldKeys>;

type Deps = {
  api: Api;
  held: HeldKeys;
  /** Called after success and failure: a response can be lost, and another tab can have changed the keys first. */
  changed: () => void;
};

/** The calls that change the keys of the account. All fail with `ApiFailure`. */
export function createKeyChanges({ api, held, changed }: Deps) {
  async function change(run: () => Promise<void>): Promise<void> {
    try {
      await run();
    } finally {
      changed();
    }
  }

  /** A key that has ended need not be stored any more. */
  function dismiss({ key: masked }: Key): void {
    for (const { key } of held.fresh) if (isMaskOf(masked, key)) held.dismiss(key);
  }

  return {
    create: (fields: Record<string, unknown>) =>
      change(async () => {
        held.add(await api.call<CreatedKey>('/v1/keys', { method: 'POST', body: fields }));
      }),
    edit: ({ id }: Key, fields: Record<string, unknown>) =>
      change(() => api.call(`/v1/keys/${id}`, { method: 'PATCH', body: fields })),
    rotate: (old: Key, graceSeconds: number) =>
      change(async () => {
        const successor = await api.call<SuccessorKey>(`/v1/keys/${old.id}/rotate`, {
          method: 'POST',
          body: { grace_seconds: graceSeconds },
        });
        dismiss(old);
        held.add(successor);
      }),
    revoke: (old: Key, endsRequests: boolean) =>
      change(async () => {
        await api.call(`/v1/keys/${old.id}?end_requests=${endsRequests}`, { method: 'DELETE' });
        dismiss(old);
      }),
  };
}

function isMaskOf(masked: string, key: FullKey['key']): boolean {
  return key.startsWith(masked.replace(/\*+$/, ''));
}
