/** Names the environment variable that is set if the temporary files of this process are on a disk (without-disk-sync.ts). */
export const onDiskVariable = 'TEST_FILES_ON_DISK';
