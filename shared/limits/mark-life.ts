/**
 * How long a change or a removal of an account is marked. Half of it is for the decision (shared/account-changes/change-account.ts,
 * workers/maintenance/remove-unused-devices.ts), the rest for the last write: the driver may take 4 s to give up a silent socket, 2 s to
 * find a server, 2 s for a connection and 4 s to retry the write (shared/store/mongo/database/mongo-calls.ts). A mark that is not removed
 * costs only reads of the store.
 */
export const markLifeMs = 30_000;
