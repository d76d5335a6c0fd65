import unittest

from intervals import merge, total


class MergeTest(unittest.TestCase):
    def test_overlapping(self):
        self.assertEqual(merge([(1, 3), (2, 5), (8, 9)]), [(1, 5), (8, 9)])

    def test_touching(self):
        self.assertEqual(merge([(1, 3), (3, 5)]), [(1, 5)])

    def test_contained(self):
        self.assertEqual(merge([(1, 10), (2, 3)]), [(1, 10)])


class TotalTest(unittest.TestCase):
    def test_counts_overlaps_once(self):
        self.assertEqual(total([(0, 4), (1, 2), (6, 7)]), 5)


if __name__ == "__main__":
    unittest.main()
