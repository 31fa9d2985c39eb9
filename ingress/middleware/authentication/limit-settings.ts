import { type Stage, stateOf } from '../../request-state.ts';

/** Counts each write of the caller's own keys and settings, before its body is read (contract.md#ho4-what-an-account-creates). */
export function limitSettings({
  limitSettingsWrites,
}: {
  limitSettingsWrites: (account: string) => Promise<void>;
}): Stage {
  return async function limitSettings(ctx, next) {
    await limitSettingsWrites(stateOf(ctx, 'caller').account);
    await next();
  };
}
