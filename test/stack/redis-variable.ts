/** Names the environment variable that says what stacks of this process run on: `cluster`, otherwise one Redis server. */
export const redisVariable = 'TEST_REDIS';
