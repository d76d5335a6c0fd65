import unittest

from words import last_words


class LastWordsTest(unittest.TestCase):
    def test_last_two(self):
        self.assertEqual(last_words("see you on Monday", 2), ["on", "Monday"])

    def test_last_one(self):
        self.assertEqual(last_words("hello there", 1), ["there"])


if __name__ == "__main__":
    unittest.main()
